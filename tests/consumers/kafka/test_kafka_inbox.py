"""The group of workers on Kafka: what a member does when offsets cannot be read, and when it was busy for too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from seekpoint.consumers.kafka import kafka_inbox
from seekpoint.consumers.kafka.kafka_client import OFFSET_BEGINNING
from seekpoint.consumers.kafka.kafka_inbox import KafkaInbox
from seekpoint.producers import Client, agent
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable

WAIT_S = 30.0
POLL_MS = 6_500


class FakeConsumer:
    """A consumer that is asked for committed offsets."""

    def __init__(self, answer: list[Any] | KafkaError) -> None:
        self.answer = answer
        self.given: list[tuple[int, int]] = []

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[Any]:
        if isinstance(self.answer, KafkaError):
            raise KafkaException(self.answer)
        return self.answer

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.given = [(one.partition, one.offset) for one in partitions]


def given(monkeypatch: pytest.MonkeyPatch, answer: list[Any] | KafkaError) -> list[tuple[int, int]]:
    consumer = FakeConsumer(answer)
    monkeypatch.setattr(kafka_inbox, "Consumer", lambda config: consumer)
    inbox = KafkaInbox(Settings(), "workers")
    inbox._assign(consumer, [TopicPartition("inbox", 1)])  # type: ignore[arg-type]
    return consumer.given


def test_a_member_begins_at_the_committed_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that has committed nothing begins at the first submission."""
    assert given(monkeypatch, [TopicPartition("inbox", 1, 7)]) == [(1, 7)]
    assert given(monkeypatch, [TopicPartition("inbox", 1, -1001)]) == [(1, OFFSET_BEGINNING)]


def test_a_member_takes_its_partitions_also_if_no_offset_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reads the stored offset later; an unknown offset is not taken for none."""
    assert given(monkeypatch, KafkaError(KafkaError._TIMED_OUT)) == [(1, TopicPartition("inbox", 1).offset)]
    failed = SimpleNamespace(partition=1, offset=-1001, error=KafkaError(KafkaError.NOT_COORDINATOR))
    assert given(monkeypatch, [failed]) == [(1, TopicPartition("inbox", 1).offset)]


class Message:
    """A message or an error event, as librdkafka gives it."""

    def __init__(self, value: bytes, error: KafkaError | None = None) -> None:
        self._value, self._error = value, error

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 5

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return self._value


class PolledConsumer(FakeConsumer):
    """Gives a batch with an error in the middle, once."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = 0
        denied = Message(b"", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        self.batch: list[Message] = [Message(b"one"), denied, Message(b"two")]

    def poll(self, timeout_s: float) -> Message | None:
        return self.batch.pop(0) if self.batch else None

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        batch, self.batch = self.batch, []
        return batch

    def assignment(self) -> list[TopicPartition]:
        self.asked += 1
        return [TopicPartition("inbox", 1)]


def test_an_error_between_two_submissions_loses_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer has passed them: what is not returned now would never be read, and later commits would pass it."""
    consumer = PolledConsumer()
    monkeypatch.setattr(kafka_inbox, "Consumer", lambda config: consumer)
    inbox = KafkaInbox(Settings(), "workers")
    assert [record.value for record in inbox.poll(0.0)] == [b"one", b"two"]
    with pytest.raises(JournalUnavailable):
        inbox.poll(0.0)
    assert inbox.poll(0.0) == []


def test_a_member_asks_for_its_assignment_when_that_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time wakes another thread of the client, which a quiet inbox need not pay five times a second."""
    consumer = PolledConsumer()
    consumer.batch = []
    monkeypatch.setattr(kafka_inbox, "Consumer", lambda config: consumer)
    inbox = KafkaInbox(Settings(), "workers")
    revoked = consumer.callbacks["on_revoke"]
    for change in (lambda: inbox._assign(consumer, []), lambda: revoked(consumer, [])):  # type: ignore[arg-type]
        inbox.poll(0.0)
        asked = consumer.asked
        inbox.poll(0.0)
        assert consumer.asked == asked
        change()
        inbox.poll(0.0)
        assert consumer.asked == asked + 1
    assert inbox.assigned == {1}


@pytest.fixture
def inbox(journal: Settings) -> Iterator[KafkaInbox]:
    """Join a group that expels a member after a few seconds without a poll."""
    member = KafkaInbox(replace(journal, kafka_consumer={"max.poll.interval.ms": str(POLL_MS)}), "workers")
    yield member
    member.close()


@agent("double")
async def double(process: object, number: int) -> int:
    return number * 2


@pytest.mark.cluster
async def test_a_member_that_was_busy_for_too_long_joins_again(
    journal: Settings, inbox: KafkaInbox, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not fail, is assigned its partitions anew and reads on."""
    keys: list[bytes | None] = []

    def poll_until(is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, (keys, inbox.assigned)
            keys.extend(record.key for record in inbox.poll(0.1))

    poll_until(lambda: bool(inbox.assigned))
    async with Client.connect(journal) as client:
        await asyncio.sleep(POLL_MS / 1000 + 2)
        poll_until(lambda: "the group went on without this member" in caplog.text)
        poll_until(lambda: bool(inbox.assigned))
        await client.submit(double, "case-1", 1)
        poll_until(lambda: b"case-1" in keys)
