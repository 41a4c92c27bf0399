"""A journal in memory, a clock that skips all sleep, a node on both; a world outside. Who needs another one says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from outside_ledger import Ledger
from seekpoint.producers import Node, VirtualClock
from seekpoint.schemas import MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    """One partition."""
    return MemoryLog(partitions=1)


@pytest.fixture
def clock() -> VirtualClock:
    """It jumps."""
    return VirtualClock()


@pytest.fixture
async def node(log: MemoryLog, clock: VirtualClock) -> AsyncIterator[Node]:
    """On both."""
    async with Node.in_memory(log, clock=clock) as running:
        yield running


@pytest.fixture
def ledger() -> Ledger:
    """Nobody has called it yet."""
    return Ledger()
