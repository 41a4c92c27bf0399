"""The copy loop: what is settled was acknowledged, however late acknowledgements come."""

from __future__ import annotations

from typing import Any

import pytest

import seekpoint.consumers.staging.copying as copying
import seekpoint.consumers.staging.generations as generations
from seekpoint.consumers.staging.copying import Copier
from seekpoint.consumers.staging.flow import Settled
from seekpoint.consumers.staging.headers import HeaderRules, Provenance
from seekpoint.consumers.staging.memory_topic import MemorySender, MemoryTopic
from seekpoint.consumers.staging.partitioning import Partitioner
from seekpoint.consumers.staging.ports import Stretch
from seekpoint.schemas.errors import JournalUnavailable


class LateSender(MemorySender):
    """Acknowledges only every so many polls; a full queue in between."""

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
    stretches = [Stretch(partition, mark.low, mark.high) for partition, mark in source.marks().items()]
    return Copier(
        stretches,
        source.read(stretches),
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
def test_what_is_settled_was_acknowledged(polls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every moment; positions and sums belong together; and at the end everything is."""
    monkeypatch.setattr(generations, "_GENERATION_RECORDS", 2)
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


def test_a_full_queue_is_waited_for() -> None:
    """Nothing is skipped for it."""
    source, target = topic(60), MemoryTopic(2)
    target.queue_max = 3
    assert copier(source, LateSender(target, 2), lambda now: None).run()
    assert len(target.records()) == 60


def test_a_target_that_never_acknowledges_is_given_up() -> None:
    """With how many are open; the progress so far is not affected."""
    with pytest.raises(JournalUnavailable) as caught:
        copier(topic(10), LateSender(MemoryTopic(2), 10**9), lambda now: None, silence_max_s=0.05).run()
    assert caught.value.unacknowledged == 10


def test_a_source_that_falls_silent_is_given_up() -> None:
    """Instead of waiting for ever for an offset that does not come."""
    source = topic(10)

    class Silent:
        """Has something left and never brings it."""

        def take(self, records_max: int, timeout_s: float) -> list[Any]:
            return []

        def unfinished(self) -> frozenset[int]:
            return frozenset({0})

    source.read = lambda stretches: Silent()  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(JournalUnavailable, match="brought nothing"):
        copier(source, MemorySender(MemoryTopic(2)), lambda now: None, silence_max_s=0.05).run()


def test_a_refused_record_ends_it() -> None:
    """What came after it does not count as sent."""

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
