"""A journal in a file with a failed run, one that waits at a gate, a finished one, and a record that is no entry."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from consoles import file_settings, work_on
from seekpoint.console.mcp.answerer import Answerer
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from written_journals import write_records

LONG = "x" * 100_000


@agent("refund", "2")
async def refund(process: Process, order: str) -> Any:
    """Fail, wait or end, as the order says."""
    found = await process.step("look", lambda name: {"order": name, "amount": 12}, order)
    await process.say("user", f"Where is {order}?")
    if order == "bad":
        raise ValueError("no such order")
    if order == "good":
        await process.gate("approve", prompt={"amount": found["amount"]}, timeout=3_600)
    await process.update("letter", LONG)
    return found["amount"]


async def _work(node: Node) -> None:
    with contextlib.suppress(ValueError):
        await node.run(refund, "case-bad", "bad")
    await node.run(refund, "case-done", "small")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(node.run(refund, "case-waits", "good"), 0.3)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The journal. Tests only look at it."""
    settings = file_settings(tmp_path_factory.mktemp("runs"))
    work_on(settings, _work)
    write_records(settings, [(b"case-bad", b"junk")])
    return settings


@pytest.fixture
def address(runs: Settings) -> str:
    """Its address."""
    return f"sqlite:///{runs.sqlite_path}"


@pytest.fixture
def target(address: str) -> Iterator[CommandTarget]:
    """The journal as a command has it."""
    with closing(CommandTarget(None, None, None, address)) as found:
        yield found


@pytest.fixture
def answerer(target: CommandTarget) -> Answerer:
    """Answers calls of tools on the journal."""
    return Answerer(target)
