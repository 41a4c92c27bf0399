"""The second node of the tests of shared writing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog


@pytest.fixture
async def other(log: MemoryLog) -> AsyncIterator[Node]:
    """Another node on the same log."""
    async with Node.in_memory(log, node_id="other") as running:
        yield running
