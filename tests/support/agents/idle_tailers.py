"""A node whose tailer is idle: it reads nothing until somebody asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of

__all__ = ["at_rest", "until", "until_idle"]


async def until(true: Callable[[], bool], what: str) -> None:
    """Poll, with a deadline. ``what`` says what is wrong if it passes."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.005)


async def at_rest(node: Node) -> None:
    """Once nobody has waited for the log for a while, so the node does not know what others do."""
    await until(lambda: runtime_of(node).tailer.may_lag, "somebody keeps waiting for the log")


async def until_idle(node: Node) -> None:
    """Once its thread does not read."""
    await until(lambda: runtime_of(node).tailer.is_idle, "somebody keeps waiting for the log")
