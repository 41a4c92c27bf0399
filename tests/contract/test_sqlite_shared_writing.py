"""Shared writing on the embedded log: each node has its own connection to the file, as another program would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from owner_writes_contract import OwnerWritesContract
from seekpoint.producers import Node
from shared_writing_contract import SharedWritingContract


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Three nodes of one file."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Node.local(tmp_path / "runs.db", node_id=f"n{number}"))
            for number in range(3)
        ]


class TestSqliteLog(SharedWritingContract):
    """Inherited."""


class TestSqliteOwnerWrites(OwnerWritesContract):
    """Inherited."""
