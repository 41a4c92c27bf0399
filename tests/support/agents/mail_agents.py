"""Agents that receive mail, and die once they have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seekpoint.producers import Agent, Process, agent

__all__ = ["Crash", "crashing", "reader"]


def reader(*names: str | None, then: Callable[[], Any] | None = None, **how: Any) -> Agent:
    """An agent that receives mail by these names, one after the other; ``then`` is called behind it."""

    @agent("reader")
    async def run(process: Process, input: Any) -> Any:
        found = [await process.receive(name, **how) for name in names]
        if then is not None:
            then()
        return [[item.kind, item.name, item.payload, item.actor, item.id.hex()] for item in found]

    return run


class Crash(Exception):
    """The code dies here."""


def crashing() -> Callable[[], Any]:
    """Dies once, then no more."""
    left = [None]

    def then() -> None:
        if left:
            left.pop()
            raise Crash

    return then
