"""What the appender gives to librdkafka, and when. With a producer that answers on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError

from seekpoint.producers.writer import kafka_writer
from seekpoint.producers.writer.kafka_writer import UNANSWERED_MAX, KafkaAppender
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord, Record

WAIT_S = 5.0


class Answered:
    """A message as a delivery callback gets it."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 7


class FakeProducer:
    """Keeps batches until they are answered."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[dict[str, Any]]]] = []
        self.given: list[bytes] = []
        self.answers: list[Callable[[], None]] = []
        self.lock = threading.Lock()
        self.polls = 0

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        with self.lock:
            self.batches.append((partition, messages))
            self.given += [message["value"] for message in messages]
        return len(messages)

    def answer(self, error: KafkaError | None = None, offset: int | None = 0) -> None:
        """Answer everything that was given."""
        with self.lock:
            batches, self.batches = self.batches, []
            for _, messages in batches:
                for message in messages:
                    self.answers.append(lambda call=message["callback"]: call(error, Answered(offset)))  # type: ignore[misc]

    def poll(self, timeout_s: float) -> None:
        self.polls += 1
        with self.lock:
            answers, self.answers = self.answers, []
        for answer in answers:
            answer()
        time.sleep(0.001)

    def purge(self, **how: bool) -> None:
        self.answer(KafkaError(KafkaError._PURGE_QUEUE))


class Bench:
    """An appender and its producer."""

    def __init__(self, producer: FakeProducer) -> None:
        self.producer = producer
        self.reports: list[DeliveryReport] = []
        self.appender = KafkaAppender(Settings(), self.reports.extend)

    def send(self, *names: str, partition: int = 0) -> None:
        records = [ProducerRecord(partition, b"k", name.encode(), name) for name in names]
        assert self.appender.send(records) == len(records)

    def answered(self, count: int) -> Sequence[DeliveryReport]:
        deadline = time.monotonic() + WAIT_S
        while len(self.reports) < count and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(self.reports) == count
        return self.reports


def settled(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    producer = FakeProducer()
    monkeypatch.setattr(kafka_writer, "_producer", lambda settings: producer)
    made = Bench(producer)
    yield made
    made.appender.retire(0.0)


FULL = [f"first {number}" for number in range(UNANSWERED_MAX)]


def test_records_wait_while_librdkafka_would_not_send_them(bench: Bench) -> None:
    """They leave in their order when the partition was answered; other partitions do not wait."""
    bench.send(*FULL)
    bench.send("second")
    bench.send("third")
    bench.send("other", partition=1)
    assert bench.producer.given == [*(name.encode() for name in FULL), b"other"]
    bench.producer.answer()
    bench.answered(UNANSWERED_MAX + 1)
    assert bench.producer.given[-2:] == [b"second", b"third"]
    bench.producer.answer()
    assert [report.token for report in bench.answered(UNANSWERED_MAX + 3)] == [*FULL, "other", "second", "third"]


def test_a_report_has_the_record_as_readers_get_it(bench: Bench) -> None:
    """So that a node which has read all before it need not read it back. One that failed has none."""
    bench.send("a", partition=3)
    bench.producer.answer()
    [done] = bench.answered(1)
    assert (done.offset, done.record) == (0, Record(3, 0, 7, b"k", b"a"))
    bench.send("b")
    bench.producer.answer(KafkaError(KafkaError._PURGE_QUEUE))
    assert [one.record for one in bench.answered(2)[1:]] == [None]


def test_an_acknowledgement_without_an_offset_is_none(bench: Bench) -> None:
    """A batch that got an error is known to be in the log from a later one. Where it is, its owner finds out (O5)."""
    bench.send("a")
    bench.producer.answer(offset=None)
    [found] = bench.answered(1)
    assert (found.offset, type(found.error), found.record) == (-1, JournalUnavailable, None)


def test_records_do_not_wait_below_the_limit(bench: Bench) -> None:
    """A process that appends one entry after the other is as quick as it was."""
    bench.send(*FULL[1:])
    bench.send("next")
    assert bench.producer.given[-1] == b"next"


def test_a_record_behind_a_lost_one_is_never_sent(bench: Bench) -> None:
    """It would leave a gap in its process (rule O5). It is answered, too."""
    bench.send(*FULL)
    bench.send("second")
    bench.producer.answer(KafkaError(KafkaError._TRANSPORT))
    assert all(report.error is not None for report in bench.answered(UNANSWERED_MAX + 1))
    assert b"second" not in bench.producer.given


def test_a_record_that_comes_after_a_lost_one_is_not_sent_either(bench: Bench) -> None:
    """It waits until the appender is retired: the owner first has to learn which records were lost."""
    bench.send("lost")
    bench.producer.answer(KafkaError(KafkaError._TRANSPORT))
    bench.answered(1)
    bench.send("behind")
    time.sleep(0.02)
    assert bench.producer.given == [b"lost"]
    bench.appender.retire(0.0)
    assert [report.token for report in bench.answered(2)] == ["lost", "behind"]
    assert bench.reports[-1].error is not None


def test_a_retired_appender_answers_the_records_that_wait(bench: Bench) -> None:
    """Else their callers would wait for ever."""
    bench.send(*FULL)
    bench.send("second")
    bench.appender.retire(0.0)
    assert all(report.error is not None for report in bench.answered(UNANSWERED_MAX + 1))
    assert b"second" not in bench.producer.given


def test_a_retired_appender_sends_what_waits_first(bench: Bench) -> None:
    """For the drain time."""
    bench.send(*FULL)
    bench.send("second")
    threading.Timer(0.05, bench.producer.answer).start()
    threading.Timer(0.2, bench.producer.answer).start()
    bench.appender.retire(WAIT_S)
    assert all(report.error is None for report in bench.answered(UNANSWERED_MAX + 1))


def test_the_thread_of_an_idle_producer_rests_until_a_record_comes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle node polls its producer once in two seconds; a record, or the end, wakes the thread at once."""
    monkeypatch.setattr(kafka_writer, "_QUIET_S", 0.0)
    monkeypatch.setattr(kafka_writer, "_REST_S", 60.0)
    settled(lambda: not bench.appender._busy.is_set())
    time.sleep(0.05)  # it waits
    polls = bench.producer.polls
    time.sleep(0.1)
    assert bench.producer.polls == polls
    bench.send("a")
    bench.producer.answer()
    assert len(bench.answered(1)) == 1
    settled(lambda: not bench.appender._busy.is_set())
    began = time.monotonic()
    bench.appender.retire(0.0)
    assert time.monotonic() - began < WAIT_S
