"""Topics that the manifest does not pin, deleted under a running node: what goes on, and what brings them back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from raw_kafka import RawKafka
from seekpoint.compose import create_topics
from seekpoint.compose.topic_plan import PINNED
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.producers import Node
from seekpoint.producers.dispatch import dispatcher as dispatching
from seekpoint.producers.dispatch.dispatcher import Dispatcher
from seekpoint.producers.durable.effects.connectors import Connectors
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import JournalMismatch

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than in earnest."""
    monkeypatch.setattr(dispatching, "_CHECK_INTERVAL_S", 0.3)


UNPINNED = ("nodes", "recover", "recovered")


def _delete(settings: Settings, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    names = [settings.topic_name(topic) for topic in topics]
    for done in admin.delete_topics(names, operation_timeout=30).values():
        done.result(30)


def test_every_topic_is_either_pinned_or_can_be_made_again() -> None:
    """The topics of this module and those of ``test_topics_gone`` are all eight."""
    assert len({*PINNED, *UNPINNED}) == len(PINNED) + len(UNPINNED) == 8


@pytest.mark.parametrize("topic", UNPINNED)
async def test_a_topic_that_nothing_rests_on_may_be_deleted(journal: Settings, topic: str) -> None:
    """Owners, the projector and a dispatcher go on without it, and with it once it is made again."""
    projector = Projector(journal)
    running = asyncio.create_task(projector.run())
    try:
        async with (
            Node.connect(journal) as node,
            Dispatcher(node, known=Connectors(), poll_s=0.05) as dispatcher,
            node.open("case-1") as process,
        ):
            await process.update("city", "Oslo")
            await projector.catch_up(timeout_s=60)
            await asyncio.to_thread(_delete, journal, topic)
            await process.update("city", "Rome")
            await process.confirm()
            await projector.catch_up(timeout_s=60)
            await create_topics(journal)
            await process.update("city", "Bern")
            await process.confirm()
            await projector.catch_up(timeout_s=60)
            assert (await node.recover("case-1")).state.context == {"city": "Bern"}
            looked = dispatcher.looks
            async with asyncio.timeout(30):
                while dispatcher.looks <= looked + 1:  # noqa: ASYNC110  # it gives no event to wait for
                    await asyncio.sleep(0.05)
            assert (dispatcher.failure, running.done()) == (None, False)
    finally:
        projector.stop()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("topic", PINNED)
async def test_a_dispatcher_stops_when_a_pinned_topic_is_deleted(journal: Settings, topic: str) -> None:
    """It says so at once in ``failure``, though no process is open on its node and nothing arrives."""
    settings = replace(journal, redis_url=None, start_timeout_s=5.0)
    async with Node.connect(settings) as node:
        dispatcher = Dispatcher(node, known=Connectors(), poll_s=0.05)
        with pytest.raises(JournalMismatch):
            async with dispatcher:
                await asyncio.sleep(0.3)
                await asyncio.to_thread(_delete, settings, topic)
                async with asyncio.timeout(20):
                    while dispatcher.failure is None:  # noqa: ASYNC110  # it gives no event to wait for
                        await asyncio.sleep(0.05)


async def test_the_recovery_service_answers_after_its_requests_were_made_anew(journal: Settings) -> None:
    """Offsets of the former topic say nothing of the new one."""
    settings = replace(journal, redis_url=None)
    async with Node.connect(settings) as node, RecoveryService(settings) as service:
        async with node.open("case-1") as process:
            await process.update("city", "Oslo")
        running = asyncio.create_task(service.run())
        for _ in range(3):
            await node.request_recovery("case-1", timeout_s=30)
        await asyncio.to_thread(RawKafka(settings).recreate, ["recover"])
        found = await node.request_recovery("case-1", timeout_s=60)
        assert found.state is not None
        assert found.state.context == {"city": "Oslo"}
        running.cancel()
