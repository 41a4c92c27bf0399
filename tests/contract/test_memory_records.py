"""Records of processes on the log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from process_listing_contract import ProcessIndexContract
from records_contract import RecordsContract
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog


@pytest.fixture
async def nodes() -> AsyncIterator[list[Node]]:
    """Three nodes of one log."""
    log = MemoryLog(partitions=2)
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Node.in_memory(log, node_id=f"n{number}")) for number in range(3)]


class TestMemoryLog(RecordsContract):
    """Inherited."""


class TestMemoryLogIndex(ProcessIndexContract):
    """Inherited."""
