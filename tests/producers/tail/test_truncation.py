"""The law of the checks for a log that lost its end: they find each loss of what was delivered, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seekpoint.producers.tail import truncation
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.tail.truncation import TruncationChecks
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import JournalGap, JournalUnavailable, LogTruncated
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.log.tail import TailBatch

ACTIONS = ("own", "own", "other", "read", "reread", "direct", "check", "elect", "lose")


ENDING = [("check", 1), *[("other", 1), ("read", 1)] * 2]
"""A loss up to the position shows when the next record is there."""


async def at_once(call: Callable[[], Any]) -> Any:
    return call()


class Follower:
    """A tail of one partition and what its tailer does, without threads."""

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.tail = PartitionTail(0, 0)
        self.checks = TruncationChecks(self.log, at_once)
        self.delivered: dict[int, bytes | None] = {}
        self.written = 0

    def is_lost(self) -> bool:
        """Whether something that was delivered is not in the log any more."""
        high = self.log.watermarks(0).high
        there = {one.offset: one.value for batch in self.log.read(0, 0, high) for one in batch.records}
        return any(there.get(offset) != value for offset, value in self.delivered.items())

    def append(self) -> Record:
        self.written += 1
        value = str(self.written).encode()
        return Record(0, self.log.append(0, b"p", value), 0, b"p", value)

    def own(self) -> None:
        """Append as this node. An offset below the position is what the handle finds."""
        record = self.append()
        if record.offset < self.tail.position:
            raise LogTruncated("below the position")
        if record.offset == self.tail.position:
            self.delivered[record.offset] = record.value
            self.tail.take([record], 0.0)

    async def read(self, start: int) -> None:
        """Read to the end, as the thread or the reader does."""
        high = self.log.watermarks(0).high
        if high < self.tail.position:
            raise LogTruncated("it ends below the position")
        for batch in self.log.read(0, start, high):
            records = batch.records
            self.delivered |= {one.offset: one.value for one in records if one.offset >= self.tail.position}
            keys = [one.key for one in records]
            found = TailBatch(0, keys, records.__getitem__, batch.next_offset, batch.first, batch.last)
            self.tail.deliver(found)
            raise_it(await self.checks.after_change_of_leader(self.tail))

    async def take(self, action: str, number: int) -> None:
        match action:
            case "own":
                self.own()
            case "other":
                self.append()
            case "read" | "direct":
                await self.read(self.tail.position)
            case "reread":
                await self.read(max(0, self.tail.position - number))
            case "check":
                raise_it(await self.checks.of_taken(self.tail))
            case "elect":
                self.log.elect(0)
            case "lose":
                self.log.elect(0, max(0, self.log.watermarks(0).high - number))


def raise_it(error: Exception | None) -> None:
    if error is not None:
        raise error


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 4))))
@example([("own", 1), ("lose", 1), ("other", 1), ("own", 1)])
@example([("own", 1), ("read", 1), ("own", 1), ("lose", 1), ("other", 1), ("other", 1), ("own", 1)])
@example([("own", 1), ("own", 1), ("reread", 1), ("lose", 1), ("other", 1), ("reread", 2)])
@example([("own", 1), ("check", 1), ("own", 1), ("lose", 1), ("other", 1), ("own", 1), ("check", 1)])
async def test_a_loss_is_found_and_nothing_else(actions: list[tuple[str, int]]) -> None:
    """At the latest when the tail has looked for what it took and read the next record."""
    follower = Follower()
    try:
        for action, number in [*actions, *ENDING]:
            await follower.take(action, number)
    except LogTruncated:
        assert follower.is_lost()
    else:
        assert not follower.is_lost()


def raising(error: Exception, *answers: int) -> Callable[[int, int], int]:
    """Return a function that raises ``error``: always, or once before its ``answers``."""
    left: Iterator[Exception | int] = iter([error, *answers]) if answers else repeat(error)

    def asked(partition: int, offset: int) -> int:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return found

    return asked


def taken_behind(last: Landmark, *, elect: bool = False) -> Follower:
    """Return a follower that has read the record ``last`` and has taken the one behind it, perhaps of a new leader."""
    follower = Follower()
    follower.append()
    if elect:
        follower.log.elect(0)
    follower.tail = PartitionTail(0, 1)
    follower.tail.last = last
    follower.own()
    return follower


async def test_a_hole_where_a_taken_record_was_is_a_loss() -> None:
    """A new leader has the mark of a transaction's end there, which no reader sees."""
    follower = taken_behind(Landmark(0, 0))
    follower.log.elect(0, 1)
    follower.log._partitions[0].high += 1
    assert isinstance(await follower.checks.of_taken(follower.tail), LogTruncated)


async def test_an_unknown_leader_epoch_is_no_other_one() -> None:
    """A broker need not tell it with each record."""
    follower = taken_behind(Landmark(0, -1))
    assert await follower.checks.of_taken(follower.tail) is None
    assert follower.tail.last == Landmark(1, 0)


async def test_a_trim_past_the_last_record_that_was_read_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the leader has changed: a clean election. On Kafka the question raises an error then."""
    follower = taken_behind(Landmark(0, 0), elect=True)
    monkeypatch.setattr(follower.log, "leader_epoch_at", raising(JournalGap("history is gone")))
    follower.log.trim(0, 1)
    assert await follower.checks.of_taken(follower.tail) is None


async def test_what_was_taken_is_looked_for_though_the_record_before_it_was_trimmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new leader lacks it."""
    follower = taken_behind(Landmark(0, 0))
    follower.log.elect(0, 1)
    follower.append()
    monkeypatch.setattr(follower.log, "leader_epoch_at", raising(JournalGap("history is gone")))
    follower.log.trim(0, 1)
    assert isinstance(await follower.checks.of_taken(follower.tail), LogTruncated)


async def test_a_new_leader_is_asked_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has just been elected, and may not be ready."""
    follower = taken_behind(Landmark(0, 0))
    follower.log.elect(0, 1)
    follower.append()
    follower.append()
    monkeypatch.setattr(truncation, "_RETRY_S", 0.0)
    monkeypatch.setattr(follower.log, "leader_epoch_at", raising(JournalUnavailable("no leader"), -1))
    with pytest.raises(LogTruncated):
        await follower.read(2)
