"""The tail of a log: one reader that follows several partitions as they grow, and its in-memory twin.

A tail is for speed: it says what came, as soon as it came. It explains nothing. Where it cannot go on it says that a
partition is ``broken``, and whoever follows asks ``LogReader.read`` what is wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seekpoint.schemas.errors import SeekpointError

if TYPE_CHECKING:
    from seekpoint.schemas.log import Landmark, MemoryLog, Record

__all__ = ["MemoryTail", "Stretch", "Tail"]


class Stretch(NamedTuple):
    """What came of one partition, right behind what came before. ``record(i)`` makes the record of ``keys[i]``.

    Most of it is of no interest to anybody: a key costs a tenth of a record.
    """

    partition: int
    keys: Sequence[bytes | None]
    record: Callable[[int], Record]
    next_offset: int
    """Everything below it has come; offsets may have holes."""
    first: Landmark | None = None
    last: Landmark | None = None
    broken: bool = False
    """Nothing more comes of this partition until it is begun again."""


class Tail(Protocol):
    """Follows partitions. For one thread at a time."""

    def begin(self, partition: int, position: int) -> None:
        """Follow ``partition`` from ``position`` on, whether it was followed or not."""

    def end(self, partition: int) -> None:
        """Follow it no more. What had come of it may still be polled."""

    def poll(self, timeout_s: float) -> Sequence[Stretch]:
        """What has come, in order within a partition; waits up to ``timeout_s`` for something. Never raises ours."""

    def close(self) -> None:
        """Give up connections. Idempotent."""


class MemoryTail:
    """The tail of a ``MemoryLog``. Reads through its public calls, so that what breaks those breaks it."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._positions: dict[int, int] = {}

    def begin(self, partition: int, position: int) -> None:
        """Follow it from there."""
        self._positions[partition] = position

    def end(self, partition: int) -> None:
        """Follow it no more."""
        self._positions.pop(partition, None)

    def poll(self, timeout_s: float) -> list[Stretch]:
        """What has come."""
        with self._log.grown:
            found = self._found()
            if not found:
                self._log.grown.wait(timeout_s)
                found = self._found()
            return found

    def _found(self) -> list[Stretch]:
        found = []
        for partition, position in list(self._positions.items()):
            try:
                high = self._log.watermarks(partition).high
                if high < position:
                    raise SeekpointError("the log became shorter")
                batches = self._log.read(partition, position, high) if high > position else ()
                found += [self._stretch(partition, batch.records, batch.next_offset) for batch in batches]
                self._positions[partition] = high
            except SeekpointError:
                del self._positions[partition]
                found.append(Stretch(partition, (), _none, position, broken=True))
        return found

    def _stretch(self, partition: int, records: Sequence[Record], next_offset: int) -> Stretch:
        landmarks = [self._log.landmark(partition, record.offset) for record in (*records[:1], *records[-1:])]
        first, last = landmarks if landmarks else (None, None)
        return Stretch(partition, [record.key for record in records], records.__getitem__, next_offset, first, last)

    def close(self) -> None:
        """Nothing to give up."""


def _none(index: int) -> Record:
    raise IndexError(index)
