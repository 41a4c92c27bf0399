"""A node whose tailer is at rest: it reads nothing until somebody asks, so it does not know what others do."""

from __future__ import annotations

import asyncio
import time

from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of

__all__ = ["at_rest"]


async def at_rest(node: Node) -> None:
    """Once nobody has waited for the log for a while."""
    deadline = time.monotonic() + 60
    while not runtime_of(node).tailer.may_lag:
        assert time.monotonic() < deadline, "somebody keeps waiting for the log"
        await asyncio.sleep(0.02)
