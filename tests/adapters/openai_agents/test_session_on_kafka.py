"""Sessions of the OpenAI Agents SDK on a real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from seekpoint import Node, Settings
from session_contract import SessionContract

pytestmark = pytest.mark.cluster


@pytest.fixture
async def nodes(journal: Settings) -> AsyncIterator[list[Node]]:
    """Two nodes of one journal."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Node.connect(replace(journal, node_id=f"n{number}"))) for number in range(2)
        ]


class TestKafka(SessionContract):
    """Inherited."""
