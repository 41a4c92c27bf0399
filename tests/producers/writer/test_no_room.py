"""A log without room: "no room now" and "refused for its content" are different errors, for owners and for others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from seekpoint.consumers.kafka.kafka_errors import passes, translated
from seekpoint.producers import Client, Node
from seekpoint.producers.writer import outbox as outboxes
from seekpoint.producers.writer.handle import ATTEMPTS_MAX
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import HandleClosed, JournalFull, LimitExceeded, SeekpointError
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord
from seekpoint.schemas.log.memory_log import MemoryAppender


class NarrowLog(MemoryLog):
    """A log that refuses long records with ``refusal``, as often as ``refuses`` says."""

    def __init__(self, refusal: SeekpointError, refuses: int) -> None:
        super().__init__(partitions=1)
        self.refusal, self.refuses = refusal, refuses
        self.refused = 0
        self.room = 400
        """The most bytes of a record that fits: by default a claim does."""

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> NarrowAppender:
        return NarrowAppender(self, deliver)


class NarrowAppender(MemoryAppender):
    """An appender of such a log. It ends with its first refused record, as those of Kafka and SQLite do."""

    def send(self, records: Sequence[ProducerRecord]) -> int:
        log = self._log
        assert isinstance(log, NarrowLog)
        if log.refused < log.refuses and any(len(one.value) > log.room for one in records):
            log.refused += 1
            self._deliver([DeliveryReport(one.token, -1, log.refusal) for one in records])
            return len(records)
        return super().send(records)


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits a second for room."""
    monkeypatch.setattr(outboxes, "_ROOM_PAUSE_S", 0.02)


async def test_an_entry_waits_for_room_however_often_there_is_none() -> None:
    """The claim that heals the handle fits each time, and the entry does not: that says nothing of the entry."""
    log = NarrowLog(JournalFull("no room"), ATTEMPTS_MAX + 3)
    async with Node.in_memory(log) as node, node.open("p") as process:
        await asyncio.wait_for(process.update("text", "x" * 1_000), 30)
        assert (await node.recover("p")).state.context["text"] == "x" * 1_000
    assert log.refused == ATTEMPTS_MAX + 3


async def test_an_entry_that_is_refused_for_its_content_fails_after_a_few_attempts() -> None:
    log = NarrowLog(LimitExceeded("too large"), 1_000)
    async with Node.in_memory(log) as node:
        process = await node.open("p")
        with pytest.raises(LimitExceeded):
            await asyncio.wait_for(process.update("text", "x" * 1_000), 30)
    assert log.refused <= ATTEMPTS_MAX + 1


async def test_signals_and_submissions_wait_for_room_too() -> None:
    """Nobody but the outbox has to know of it."""
    log = NarrowLog(JournalFull("no room"), 6)
    async with Node.in_memory(log) as node:
        await asyncio.wait_for(node.signal("p", "go", "x" * 1_000), 30)
    assert log.refused == 6
    inbox = NarrowLog(JournalFull("no room"), 6)
    log._topics["inbox"] = inbox
    async with Client.in_memory(log) as client:
        await asyncio.wait_for(client.submit("a", "q", "x" * 1_000), 30)
    assert inbox.refused == 6
    assert inbox.watermarks(0).high == 1


async def test_healing_waits_for_room_longer_than_its_time() -> None:
    """Its deadline is for a log that does not answer."""
    log = NarrowLog(JournalFull("no room"), 1_000_000)
    async with Node.in_memory(log, heal_timeout_s=0.1) as node, node.open("p") as process:
        log.room = 0
        update = asyncio.ensure_future(process.update("text", "x"))
        await asyncio.wait([update], timeout=1.0)
        assert not update.done()
        log.room = 1_000
        await asyncio.wait_for(update, 30)


async def test_an_outbox_that_is_closed_answers_who_waits_for_room() -> None:
    """And at once: a program that is stopped does not wait for a disk."""
    outbox = Outbox.without_handles(NarrowLog(JournalFull("no room"), 1_000_000), Settings(producer_drain_s=0.01))
    outbox.start()
    pushed = asyncio.ensure_future(outbox.push_external(0, b"p", b"x" * 1_000))
    await asyncio.wait([pushed], timeout=0.3)
    assert not pushed.done()
    await outbox.close()
    with pytest.raises((HandleClosed, JournalFull)):
        await asyncio.wait_for(pushed, 5)


def test_a_broker_that_cannot_write_has_no_room() -> None:
    """Kafka's error for a disk that is full names no content: the entry is sent again."""
    error = translated("KAFKA_STORAGE_ERROR", "disk error", Settings())
    assert isinstance(error, JournalFull)
    assert "disk" in error.hint
    assert passes("KAFKA_STORAGE_ERROR")
