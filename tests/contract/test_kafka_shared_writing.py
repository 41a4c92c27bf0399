"""Shared writing on a real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from owner_writes_contract import OwnerWritesContract
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from shared_writing_contract import SharedWritingContract

pytestmark = pytest.mark.cluster


@pytest.fixture
async def nodes(journal: Settings) -> AsyncIterator[list[Node]]:
    """Three nodes of one journal."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Node.connect(replace(journal, node_id=f"n{number}"))) for number in range(3)
        ]


class TestKafka(SharedWritingContract):
    """Inherited."""


class TestKafkaOwnerWrites(OwnerWritesContract):
    """Inherited."""
