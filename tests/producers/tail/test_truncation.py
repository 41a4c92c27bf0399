"""The law of the checks for a log that lost its end: they find each loss of what was delivered, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.tail.truncation import TruncationChecks
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import LogTruncated
from seekpoint.schemas.log.log_ports import Record
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
