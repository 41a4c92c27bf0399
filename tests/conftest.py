"""Fixtures of all tests: the session's one cluster, and a journal of its own for each test that asks."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from seekpoint.compose import LocalCluster, create_topics
from seekpoint.schemas.settings import Settings

# How long an example takes says how busy the machine is, not whether it holds.
hypothesis_settings.register_profile("seekpoint", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("seekpoint")


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """One real Kafka and Valkey a test run. If they do not come up the tests fail: they are never skipped."""
    with LocalCluster() as running:
        yield running


@pytest.fixture
def settings(cluster: LocalCluster) -> Settings:
    """Settings of a journal that nobody else uses; its topics do not exist yet."""
    return cluster.settings(journal=f"test-{uuid4().hex[:12]}", partitions=4)


@pytest.fixture
async def journal(settings: Settings) -> Settings:
    """The same settings, once the journal's topics exist."""
    await create_topics(settings)
    return settings
