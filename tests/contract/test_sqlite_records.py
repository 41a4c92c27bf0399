"""Records of processes on the embedded log: each node has its own connection to the file, as another program would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from process_listing_contract import ProcessIndexContract, begin_views, check_index
from records_contract import RecordsContract
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import local_settings


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Three nodes of one file."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Node.local(tmp_path / "runs.db", node_id=f"n{number}"))
            for number in range(3)
        ]


class TestSqliteLog(RecordsContract):
    """Inherited."""


class TestSqliteLogIndex(ProcessIndexContract):
    """Inherited."""


async def test_a_view_is_read_where_there_is_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the entries that it has not applied yet. Nothing is read from the log's beginning."""
    async with Node.connect(local_settings(tmp_path / "runs.db", {}), projector=True) as node:
        await begin_views(node)
        with caplog.at_level("INFO", "seekpoint.producers"):
            await check_index(node, [node])
    assert "read from the log" not in caplog.text
