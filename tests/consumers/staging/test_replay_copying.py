"""The copy loop: only acknowledged records are settled, and pauses are not silence."""

from __future__ import annotations

from threading import Timer
from typing import Any

import pytest

import seekpoint.consumers.staging.copy.ack_windows as windows
import seekpoint.consumers.staging.copy.copier as copying
import seekpoint.consumers.staging.copy.merge as merge
from seekpoint.consumers.staging.control import Control
from seekpoint.consumers.staging.copy.copier import Copier
from seekpoint.consumers.staging.copy.copy_stats import Settled
from seekpoint.consumers.staging.copy.headers import HeaderRules, Provenance
from seekpoint.consumers.staging.copy.memory_topic import MemorySender, MemoryTopic
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.partitioning import Partitioner
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.errors import JournalUnavailable


class LateSender(MemorySender):
    """A sender that acknowledges only in every n-th poll."""

    def __init__(self, topic: MemoryTopic, polls: int) -> None:
        super().__init__(topic)
        self._polls = polls
        self._polled = 0
        self.acknowledged = 0

    def poll(self, timeout_s: float) -> None:
        self._polled += 1
        if self._polled % self._polls == 0:
            self.acknowledged += len(self._deliveries)
            super().poll(0)


def copier(source: MemoryTopic, sender: Any, on_settled: Any, **more: Any) -> Copier:
    ranges = [OffsetRange(partition, mark.low, mark.high) for partition, mark in source.watermarks().items()]
    return Copier(
        ranges,
        source.read(ranges),
        sender,
        Partitioner(True, 2),
        Provenance("job", "a/t", "b/t"),
        headers=HeaderRules(),
        on_settled=on_settled,
        **more,
    )


def topic(records: int) -> MemoryTopic:
    made = MemoryTopic(2)
    for number in range(records):
        made.append(number % 2, b"k", b"%d" % number, 1_000)
    return made


@pytest.mark.parametrize("polls", [1, 2, 3, 7, 30])
def test_settled_records_are_acknowledged(polls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each settled point has only acknowledged records and their checksums; the last one has all."""
    monkeypatch.setattr(windows, "_WINDOW_RECORDS", 2)
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    source, target = topic(60), MemoryTopic(2)
    sender = LateSender(target, polls)
    seen: list[int] = []

    def settled(now: Settled) -> None:
        assert sum(now.offsets.values()) == now.tallies.records <= sender.acknowledged
        seen.append(now.tallies.records)

    assert copier(source, sender, settled).run()
    assert seen == sorted(seen)
    assert seen[-1] == 60
    assert len(seen) > 3 or polls == 30


def test_the_copy_waits_while_the_queue_is_full() -> None:
    """No record is skipped."""
    source, target = topic(60), MemoryTopic(2)
    target.queue_max = 3
    assert copier(source, LateSender(target, 2), lambda now: None).run()
    assert len(target.records()) == 60


def test_a_target_that_never_acknowledges_ends_the_replay() -> None:
    """The error names how many records are not acknowledged."""
    with pytest.raises(JournalUnavailable) as caught:
        copier(topic(10), LateSender(MemoryTopic(2), 10**9), lambda now: None, silence_max_s=0.05).run()
    assert caught.value.unacknowledged == 10


def test_a_silent_source_ends_the_replay() -> None:
    """The replay does not wait for ever for a record that does not come."""
    source = topic(10)

    class Silent:
        """A reader whose records never come."""

        def take(self, records_max: int, timeout_s: float) -> list[Any]:
            return []

        def unfinished(self) -> frozenset[int]:
            return frozenset({0})

    source.read = lambda ranges: Silent()  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(JournalUnavailable, match="no record came"):
        copier(source, MemorySender(MemoryTopic(2)), lambda now: None, silence_max_s=0.05).run()


class SlowReader:
    """A reader that returns records only in every third call."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def take(self, records_max: int, timeout_s: float) -> Any:
        self._taken += 1
        return self._reader.take(records_max, timeout_s) if self._taken % 3 == 0 else []


def with_slow_reader(source: MemoryTopic) -> MemoryTopic:
    read = source.read
    source.read = lambda ranges: SlowReader(read(ranges))  # type: ignore[method-assign, assignment, return-value]
    return source


def test_a_paused_source_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paced replay pauses the source while enough records are queued."""
    monkeypatch.setattr(merge, "QUEUE_RECORDS_MAX", 40)
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 80)
    source, target = topic(160), MemoryTopic(2)
    assert copier(source, MemorySender(target), lambda now: None, pace=Pace(rate=80), silence_max_s=0.3).run()
    assert len(target.records()) == 160


def test_waiting_until_a_record_is_due_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time in which a record waits until it is due does not count as silence."""
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    source, target = with_slow_reader(MemoryTopic(1)), MemoryTopic(1)
    for stamp in (1_000, 1_600, 2_200, 2_200):
        source.append(0, b"k", b"v", stamp)
    assert copier(source, MemorySender(target), lambda now: None, pace=Pace(speed=1), silence_max_s=0.4).run()
    assert len(target.records()) == 4


@pytest.mark.parametrize("pace", [None, Pace(rate=100_000)])
def test_a_pause_is_not_silence(pace: Pace | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause longer than the limit does not end the replay, even if the next read is empty."""
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    source, target, control = with_slow_reader(topic(60)), MemoryTopic(2), Control()
    sender = MemorySender(target)
    produce = sender.produce

    def produced(*record: Any) -> None:
        produce(*record)
        if len(target.records()) == 10:
            control.pause()
            Timer(0.8, control.resume).start()

    sender.produce = produced  # type: ignore[method-assign, assignment]
    assert copier(source, sender, lambda now: None, control=control, pace=pace, silence_max_s=0.4).run()
    assert len(target.records()) == 60


def test_a_refused_record_ends_the_replay() -> None:
    """The replay raises the error of the delivery."""

    class Refusing(MemorySender):
        """Refuses the fifth record."""

        count = 0

        def produce(self, *record: Any) -> None:
            self.count += 1
            if self.count == 5:
                record[3]("too large", None)
            else:
                super().produce(*record)

    with pytest.raises(JournalUnavailable, match="too large"):
        copier(topic(20), Refusing(MemoryTopic(2)), lambda now: None).run()
