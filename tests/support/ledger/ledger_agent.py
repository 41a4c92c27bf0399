"""An agent for the ledger: ``python ledger_agent.py PORT FIRST COUNT``; settings come from the environment.

It runs COUNT processes at once, each with three steps, an idempotent effect and an at-most-once effect, all calling the
ledger. Killed at any moment, it is started again and goes on. Exits with 0 once every process is finished or parked.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from seekpoint.producers import Answer, Effect, Node, Process, agent
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import EffectFailed, EffectUnknown

__all__: list[str] = []


async def ask(what: str, key: str, takes_s: float = 0.0) -> dict[str, Any]:
    """One question to the ledger. It is told which start of the agent asks: later ones have higher numbers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    try:
        asked = {"what": what, "key": key, "by": int(os.environ["AGENT_LIFE"]), "takes_s": takes_s}
        writer.write(json.dumps(asked).encode() + b"\n")
        return dict(json.loads(await reader.readline()))
    finally:
        writer.close()


async def work(number: int, *, idempotency_key: str) -> int:
    """Done outside, by key."""
    await ask("call", idempotency_key, float(os.environ.get("CALL_TAKES_S", "0.12")))
    return number


async def find(number: int, *, idempotency_key: str) -> Answer:
    """The reconciler."""
    return Answer.SUCCEEDED if (await ask("find", idempotency_key))["done"] else Answer.ABSENT


@agent("ledger")
async def run(process: Process, number: int) -> str:
    """Each answer that the code got is told to the ledger: from there on nothing may be called for it."""
    for name in ("one", "two", "three"):
        await process.step(name, work, number)
        await ask("returned", f"{process.process_id}/{name}:1")
    await process.effect("safe", work, number)
    await ask("returned", f"{process.process_id}/safe:1")
    try:
        await process.effect("once", work, number, semantics=Effect.AT_MOST_ONCE, reconcile=find)
    except EffectFailed:
        return "a person said that it was not done"
    await ask("returned", f"{process.process_id}/once:1")
    return "done"


async def one(node: Node, number: int, room: asyncio.Semaphore) -> None:
    """Run one process to its end, or until it waits for a person."""
    async with room:
        try:
            await node.run(run, f"run-{number}", number, take_over=True)
        except EffectUnknown as exc:
            await ask("parked", f"{exc.process_id}/{exc.key}")


async def main(first: int, count: int) -> None:
    """All of them, twenty at once."""
    room = asyncio.Semaphore(20)
    async with Node.connect(Settings.load(node_id=f"life-{os.environ['AGENT_LIFE']}")) as node:
        outcomes = await asyncio.gather(
            *(one(node, first + index, room) for index in range(count)), return_exceptions=True
        )
    failures = [repr(outcome) for outcome in outcomes if outcome is not None]
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[2]), int(sys.argv[3])))
