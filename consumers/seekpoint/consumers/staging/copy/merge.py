"""Several partitions in the order of their timestamps, without one that waits holding up another.

Within a partition the order never changes: a record with a smaller timestamp than one before it counts as that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from seekpoint.consumers.staging.replay_ports import Reading

__all__ = ["FULL_RECORDS", "Feed", "Merge"]

FULL_RECORDS = 1_000
"""A partition that waits with so many brings no more until half of them are gone."""


class Merge:
    """Records by partition go in, records by time come out."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self._waiting: dict[int, deque[tuple[int, Any]]] = {partition: deque() for partition in partitions}
        self._newest: dict[int, int] = {}
        self._heads: list[tuple[int, int]] = []
        self._finished: set[int] = set()
        self._empty = set(self._waiting)

    def offer(self, partition: int, timestamp_ms: int, record: Any) -> None:
        """The next record of ``partition``."""
        newest = max(timestamp_ms, self._newest.get(partition, timestamp_ms))
        self._newest[partition] = newest
        waiting = self._waiting[partition]
        if not waiting:
            heappush(self._heads, (newest, partition))
            self._empty.discard(partition)
        waiting.append((newest, record))

    def finish(self, partition: int) -> None:
        """Nothing more comes of ``partition``."""
        self._finished.add(partition)
        self._empty.discard(partition)

    def has_next(self) -> bool:
        """Whether it is known which record is next: each partition that may bring a smaller one brought one."""
        return bool(self._heads) and not self._empty

    def next(self) -> Any | None:
        """The record with the smallest timestamp; None if that is not known yet."""
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
        """Whether ``partition`` should bring no more for now."""
        return len(self._waiting[partition]) >= FULL_RECORDS

    def is_hungry(self, partition: int) -> bool:
        """Whether ``partition`` should bring more again."""
        return len(self._waiting[partition]) <= FULL_RECORDS // 2


class Feed:
    """A merge, and the reading that it is fed from: partitions with much that waits are held."""

    def __init__(self, reading: Reading, partitions: Iterable[int]) -> None:
        self.merge = Merge(partitions)
        self._reading = reading
        self._partitions = frozenset(partitions)
        self._held: set[int] = set()
        self._finished: set[int] = set()

    def put(self, messages: Sequence[Any]) -> None:
        """What came."""
        for message in messages:
            self.merge.offer(message.partition(), message.timestamp()[1], message)
        unfinished = self._reading.unfinished()
        for partition in self._partitions - unfinished - self._finished:
            self._finished.add(partition)
            self.merge.finish(partition)
        for partition in [one for one in self._held if self.merge.is_hungry(one)]:
            self._held.discard(partition)
            self._reading.release(partition)
        for partition in unfinished - self._held:
            if self.merge.is_full(partition):
                self._held.add(partition)
                self._reading.hold(partition)

    def is_done(self) -> bool:
        """Whether nothing waits and nothing more comes."""
        return self._finished == self._partitions and not self.merge.has_next()
