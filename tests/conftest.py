"""Fixtures of all tests: the session's one cluster, and a journal of its own for each test that asks."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from file_logs import closing_files, skip_what_needs_memory, use_files_if_asked
from leftovers import nothing_left, watch_loops
from quick_collection import QuickCollection
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.schemas.config.settings import TOPICS, Settings
from stalls import RerunsAfterStalls, Stalls
from timeouts import Timeouts, interrupts_are_heard
from xdist_scheduler import WorkersByNeed

# How long an example takes says how busy the machine is, not whether it holds.
hypothesis_settings.register_profile("seekpoint", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("seekpoint")


use_files_if_asked()

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # else a thread of that SDK waits to send traces


def pytest_configure(config: pytest.Config) -> None:
    """Look at the machine as long as tests run, and at how long each of them takes."""
    watch_loops()
    config.pluginmanager.register(QuickCollection())
    stalls = Stalls()
    config.add_cleanup(stalls.close)
    config.pluginmanager.register(RerunsAfterStalls(stalls))
    timeouts = Timeouts()
    config.add_cleanup(timeouts.close)
    config.pluginmanager.register(timeouts)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run on files, where these were asked for; refuse a test on Kafka that is not marked so."""
    skip_what_needs_memory(items)
    for item in items:
        on_kafka = "cluster" in getattr(item, "fixturenames", ())
        if on_kafka and not any(item.get_closest_marker(marker) for marker in ("cluster", "own_cluster")):
            raise pytest.UsageError(f"{item.nodeid} needs Kafka: mark it `cluster`, for the worker that has one")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WorkersByNeed:
    """How the workers of ``scripts/test`` share the tests."""
    return WorkersByNeed(config, log)


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C works in tests, also in a run that was started in the background."""
    with interrupts_are_heard():
        yield


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """What a test started, it ends."""
    with nothing_left(), closing_files():
        yield


_ROOM_BYTES = 4 * 2**30

_CLUSTER = {
    # Tests hold the broker still for some seconds, and so does a busy machine: fenced meanwhile, it would need longer
    # to take its partitions up again than those who wait for it have. Nobody kills this one.
    "broker.session.timeout.ms": "120000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    # Members that tests kill are given up in three seconds, not in six.
    "group.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """One real Kafka and Valkey a test run. If they do not come up the tests fail: they are never skipped."""
    signal.setitimer(signal.ITIMER_REAL, 0)  # a fresh machine downloads Kafka: it has limits of its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", _directory())
        running = LocalCluster(broker_settings=_CLUSTER).start()
    with running:
        yield running


def _directory() -> str | None:
    """In memory where there is room: what else a machine's disk is doing is not under test."""
    memory = Path("/dev/shm")
    there = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM_BYTES
    return str(memory) if there else None


@pytest.fixture(scope="session")
def topics_admin(cluster: LocalCluster) -> AdminClient:
    """The client that clears away."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture
def settings(cluster: LocalCluster, topics_admin: AdminClient) -> Iterator[Settings]:
    """Settings of a journal that nobody else uses; its topics do not exist yet, and go with the test.

    A broker that keeps thousands of partitions answers everybody late.
    """
    patient = {"start_timeout_s": 60.0, "redis": {"socket_timeout": "30"}}
    mine = cluster.settings(journal=f"test-{uuid4().hex[:12]}", partitions=4, **patient)
    yield mine
    topics_admin.delete_topics([mine.topic_name(topic) for topic in TOPICS])


@pytest.fixture
async def journal(settings: Settings) -> Settings:
    """The same settings, once the journal's topics exist."""
    await create_topics(settings)
    return settings
