"""Shared writing on the log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from owner_writes_contract import OwnerWritesContract
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from shared_writing_contract import SharedWritingContract


@pytest.fixture
async def nodes() -> AsyncIterator[list[Node]]:
    """Three nodes of one log."""
    log = MemoryLog(partitions=2)
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Node.in_memory(log, node_id=f"n{number}")) for number in range(3)]


class TestMemoryLog(SharedWritingContract):
    """Inherited."""


class TestMemoryOwnerWrites(OwnerWritesContract):
    """Inherited."""
