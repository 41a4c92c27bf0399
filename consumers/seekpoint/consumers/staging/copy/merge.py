"""Merge partitions by timestamp, with bounded queues.

The order within a partition never changes: a record that is older than one before it gets that one's time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from seekpoint.consumers.staging.replay_ports import RangeReader, ReplayMessage

QUEUE_RECORDS_MAX = 1_000
"""A partition with so many queued records is paused until half of them are taken."""


class TimestampMerge:
    """A merge of partitions by timestamp."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self._waiting: dict[int, deque[tuple[int, Any]]] = {partition: deque() for partition in partitions}
        self._newest: dict[int, int] = {}
        self._heads: list[tuple[int, int]] = []
        self._finished: set[int] = set()
        self._empty = set(self._waiting)

    def add(self, partition: int, timestamp_ms: int, record: Any) -> None:
        """Add the next record of ``partition``."""
        newest = max(timestamp_ms, self._newest.get(partition, timestamp_ms))
        self._newest[partition] = newest
        waiting = self._waiting[partition]
        if not waiting:
            heappush(self._heads, (newest, partition))
            self._empty.discard(partition)
        waiting.append((newest, record))

    def finish(self, partition: int) -> None:
        """End ``partition``: it gets no more records."""
        self._finished.add(partition)
        self._empty.discard(partition)

    def has_next(self) -> bool:
        """Return whether the next record is known: each unfinished partition has a queued record."""
        return bool(self._heads) and not self._empty

    def next(self) -> Any | None:
        """Remove and return the record with the smallest timestamp; None if it is not known yet."""
        if not self.has_next():
            return None
        _, partition = heappop(self._heads)
        waiting = self._waiting[partition]
        _, record = waiting.popleft()
        if waiting:
            heappush(self._heads, (waiting[0][0], partition))
        elif partition not in self._finished:
            self._empty.add(partition)
        return record

    def is_full(self, partition: int) -> bool:
        """Return whether ``partition`` should be paused."""
        return len(self._waiting[partition]) >= QUEUE_RECORDS_MAX

    def has_room(self, partition: int) -> bool:
        """Return whether ``partition`` may be resumed."""
        return len(self._waiting[partition]) <= QUEUE_RECORDS_MAX // 2


class MergedReader:
    """A merge and its reader, which pauses partitions whose queues are full."""

    def __init__(self, reader: RangeReader, partitions: Iterable[int]) -> None:
        self.merge = TimestampMerge(partitions)
        self._reader = reader
        self._partitions = frozenset(partitions)
        self._paused: set[int] = set()
        self._finished: set[int] = set()

    def add(self, messages: Sequence[ReplayMessage]) -> None:
        """Add records that were read, then pause and resume partitions."""
        for message in messages:
            self.merge.add(message.partition(), message.timestamp()[1], message)
        unfinished = self._reader.unfinished()
        for partition in self._partitions - unfinished - self._finished:
            self._finished.add(partition)
            self.merge.finish(partition)
        for partition in [one for one in self._paused if self.merge.has_room(one)]:
            self._paused.discard(partition)
            self._reader.resume(partition)
        for partition in unfinished - self._paused:
            if self.merge.is_full(partition):
                self._paused.add(partition)
                self._reader.pause(partition)

    def is_done(self) -> bool:
        """Return whether all records were read and taken."""
        return self._finished == self._partitions and not self.merge.has_next()
