"""Records of processes on a real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

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
