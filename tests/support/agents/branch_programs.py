"""Agents made of one function, and bodies that their branches run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cuts import on_node
from seekpoint.producers import Agent, Process, agent
from seekpoint.schemas import MemoryLog

__all__ = ["broken", "for_ever", "result_of", "running", "slowly"]


def running(code: Callable[[Process], Awaitable[Any]]) -> Agent:
    """Return an agent that runs ``code``."""

    @agent("branching")
    async def run(process: Process, input: Any) -> Any:
        return await code(process)

    return run


async def result_of(
    code: Callable[[Process], Awaitable[Any]], log: MemoryLog | None = None, *, retry_failed: bool = False
) -> Any:
    """Run ``code`` as the process "p"; return its result."""
    log = MemoryLog(partitions=1) if log is None else log
    async with asyncio.timeout(20):
        return await on_node(log, lambda node: node.run(running(code), "p", take_over=True, retry_failed=retry_failed))


async def slowly(value: Any, rounds: int = 20) -> Any:
    """Return ``value`` after some rounds of the event loop."""
    for _ in range(rounds):
        await asyncio.sleep(0)
    return value


def broken(value: Any) -> None:
    """Raise ``ValueError``."""
    raise ValueError(value)


async def for_ever() -> None:
    """Never return."""
    await asyncio.Event().wait()
