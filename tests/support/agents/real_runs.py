"""150 real agent runs, journaled as their agents would have done it. They lie beside the checkout, if at all."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

from seekpoint.producers import Node

__all__ = ["NO_RUNS", "RUNS", "journal_run", "load_runs"]

RUNS = Path(__file__).resolve().parents[4] / "shared" / "data" / "agent-runs.jsonl.gz"
NO_RUNS = "the real agent runs lie beside the checkout, and are not here"


def load_runs() -> list[dict[str, Any]]:
    """All of them: ``run_id``, ``messages`` in OpenAI's form, ``reward``."""
    with gzip.open(RUNS, "rt") as lines:
        return [json.loads(line) for line in lines]


async def journal_run(node: Node, run: dict[str, Any], gate: asyncio.Semaphore) -> str:
    """One run, as its agent would have journaled it; the content hash its owner saw at the end."""
    async with gate, node.open(run["run_id"]) as process:
        await process.transition("starting")
        await process.transition("running")
        for message in run["messages"]:
            more = {name: message[name] for name in ("tool_calls", "tool_call_id", "name") if message.get(name)}
            await process.say(message["role"], message.get("content"), **more)
        await process.update("reward", run["reward"])
        return process.state.content_hash
