"""Topics that are deleted or made anew under who uses them: noticed though nobody waits for anything. On Kafka."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from raw_kafka import RawKafka
from seekpoint.compose.topic_plan import PINNED
from seekpoint.consumers.projector import projector_loop
from seekpoint.consumers.projector.projector import Projector
from seekpoint.producers import Node, Process
from seekpoint.producers.tail import tailer
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import JournalMismatch

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than in earnest."""
    monkeypatch.setattr(tailer, "_IDLE_CHECK_S", 0.3)
    monkeypatch.setattr(projector_loop, "_TOPIC_CHECK_INTERVAL_S", 0.3)


def _delete(settings: Settings, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    [done] = admin.delete_topics([settings.topic_name(topic)], operation_timeout=30).values()
    done.result(30)


async def _until_refused(process: Process) -> JournalMismatch:
    """Append until that is refused; what was acknowledged before is a matter of a moment."""
    async with asyncio.timeout(30):
        while True:
            try:
                await process.update("city", "Oslo")
            except JournalMismatch as exc:
                return exc
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("topic", PINNED)
async def test_an_owner_learns_that_a_topic_was_deleted(journal: Settings, topic: str) -> None:
    """One that only appends, and whose entries are acknowledged: each topic that the manifest names."""
    settings = replace(journal, redis_url=None, append_timeout_s=10.0, heal_timeout_s=10.0)
    async with Node.connect(settings) as node:
        process = await node.open("case-1")
        await process.update("city", "Oslo")
        await asyncio.to_thread(_delete, settings, topic)
        error = await _until_refused(process)
        assert error.facts["topic"] == settings.topic_name(topic)


async def test_an_owner_learns_that_the_schemas_were_made_anew(journal: Settings) -> None:
    """An empty topic of the same name is another topic."""
    settings = replace(journal, redis_url=None)
    async with Node.connect(settings) as node:
        process = await node.open("case-1")
        await asyncio.to_thread(RawKafka(settings).recreate, ["schemas"], 1)
        assert (await _until_refused(process)).facts["topic"] == settings.topic_name("schemas")


@pytest.mark.parametrize("topic", ["schemas", "deadletters"])
async def test_the_projector_learns_that_a_topic_was_deleted(journal: Settings, topic: str) -> None:
    """It ends with the error; it reads neither of them while it projects."""
    projector = Projector(journal)
    running = asyncio.create_task(projector.run())
    try:
        await projector.catch_up(timeout_s=60)
        await asyncio.to_thread(_delete, journal, topic)
        with pytest.raises(JournalMismatch):
            await asyncio.wait_for(running, 30)
    finally:
        projector.stop()
        await asyncio.gather(running, return_exceptions=True)
