"""Records of processes on a real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from process_listing_contract import ProcessIndexContract, begin_views, check_index
from records_contract import RecordsContract
from seekpoint.producers import Node
from seekpoint.schemas import Settings

pytestmark = pytest.mark.cluster


@pytest.fixture
async def nodes(journal: Settings) -> AsyncIterator[list[Node]]:
    """Three nodes of one journal."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Node.connect(replace(journal, node_id=f"n{number}"))) for number in range(3)
        ]


class TestKafka(RecordsContract):
    """Inherited."""


class TestKafkaIndex(ProcessIndexContract):
    """Inherited."""


async def test_a_view_is_read_where_there_is_one(journal: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """With the entries that it has not applied yet. Nothing is read from the log's beginning."""
    async with Node.connect(journal, projector=True) as node:
        await begin_views(node)
        with caplog.at_level("INFO", "seekpoint.producers"):
            await check_index(node, [node])
    assert "read from the log" not in caplog.text
