"""A node whose tailer is idle: it reads nothing until somebody asks."""

from __future__ import annotations

import asyncio
import time

from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of

__all__ = ["at_rest", "until_idle"]


async def at_rest(node: Node) -> None:
    """Once nobody has waited for the log for a while, so the node does not know what others do."""
    deadline = time.monotonic() + 60
    while not runtime_of(node).tailer.may_lag:
        assert time.monotonic() < deadline, "somebody keeps waiting for the log"
        await asyncio.sleep(0.02)


async def until_idle(node: Node) -> None:
    """Once its thread does not read."""
    deadline = time.monotonic() + 60
    while not runtime_of(node).tailer.is_idle:
        assert time.monotonic() < deadline, "somebody keeps waiting for the log"
        await asyncio.sleep(0.02)
