"""Checkpoints in memory: the twin of the compacted topic, with transactions and with faults for tests.

>>> checkpoints = MemoryCheckpoints()
>>> checkpoints.write(0, [(b"case-17", b"1"), (b"case-17", b"2")])
[0, 1]
>>> checkpoints.compact(0)
>>> list(checkpoints.records(0, 0, checkpoints.stable_end(0)))
[(1, b'case-17', b'2')]
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seekpoint.schemas.errors import JournalUnavailable, LogTruncated


@dataclass(slots=True)
class _Record:
    """A record and its transaction. The invisible marker that ends a transaction has no key."""

    position: int
    key: bytes | None
    value: bytes | None
    transaction: MemoryTransaction | None


@dataclass(slots=True)
class _CheckpointPartition:
    records: list[_Record] = field(default_factory=list)
    end: int = 0


class MemoryCheckpoints:
    """A ``CheckpointReader`` that can also be written. Thread safe; nothing blocks.

    Positions are as on Kafka: a transaction's marker takes one in each partition that the transaction wrote to. Tests
    cause faults with ``compact``, ``corrupt``, ``recreate``, and with a transaction that they never decide.
    """

    def __init__(self, partitions: int = 8) -> None:
        self.partitions = partitions
        self._parts = [_CheckpointPartition() for _ in range(partitions)]
        self._lock = threading.RLock()

    # reading
    def end(self, partition: int) -> int:
        """Return the next position, open transactions included."""
        return self._parts[partition].end

    def stable_end(self, partition: int) -> int:
        """Return the position below which every transaction is decided."""
        with self._lock:
            part = self._parts[partition]
            undecided = (one.position for one in part.records if one.transaction and one.transaction.outcome is None)
            return next(undecided, part.end)

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Yield the committed records in [start, stop). Raises ``JournalUnavailable`` behind an open transaction.

        A reader of Kafka first waits for the transaction. Here it would wait in vain.
        """
        if start >= stop:
            return
        if stop > self.end(partition):
            raise LogTruncated(
                "the checkpoint partition ends before this position",
                partition=partition,
                offset=stop,
                high=self.end(partition),
            )
        if stop > self.stable_end(partition):
            raise JournalUnavailable("an open transaction hides checkpoints", partition=partition, offset=stop)
        with self._lock:
            found = [one for one in self._parts[partition].records if start <= one.position < stop and _counts(one)]
        for one in found:
            assert one.key is not None
            yield one.position, one.key, one.value

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """Return the value at exactly ``position`` under ``key``; None if it is not there."""
        with self._lock:
            found = (one for one in self._parts[partition].records if one.position == position)
            one = next(found, None)
        if one is None or one.key != key or not _counts(one) or position >= self.stable_end(partition):
            return None
        return one.value

    # writing
    def write(self, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        """Append records without a transaction; return their positions."""
        return [self._append(partition, key, value, None) for key, value in records]

    def begin(self) -> MemoryTransaction:
        """Begin a transaction. Its records, and all behind them, are hidden until it ends."""
        return MemoryTransaction(self)

    def _append(
        self, partition: int, key: bytes | None, value: bytes | None, transaction: MemoryTransaction | None
    ) -> int:
        with self._lock:
            part = self._parts[partition]
            part.records.append(_Record(part.end, key, value, transaction))
            part.end += 1
            return part.end - 1

    # faults
    def compact(self, partition: int, below: int | None = None) -> None:
        """Drop every record below ``below`` (None: the stable end) that a later committed one replaces."""
        with self._lock:
            part = self._parts[partition]
            stop = self.stable_end(partition) if below is None else min(below, self.stable_end(partition))
            newest = {one.key: one.position for one in part.records if _counts(one) and one.position < stop}
            part.records = [
                one
                for one in part.records
                if one.position >= stop or (_counts(one) and newest[one.key] == one.position)
            ]

    def corrupt(self, partition: int, position: int, value: bytes | None = None) -> None:
        """Replace the value at ``position``; without ``value``, flip a bit of its last byte."""
        with self._lock:
            [one] = [one for one in self._parts[partition].records if one.position == position]
            assert one.value
            one.value = one.value[:-1] + bytes([one.value[-1] ^ 1]) if value is None else value

    def recreate(self) -> None:
        """Empty all partitions, as if the topic was deleted and created again."""
        with self._lock:
            self._parts = [_CheckpointPartition() for _ in range(self.partitions)]


class MemoryTransaction:
    """A transaction on any partitions of ``MemoryCheckpoints``."""

    def __init__(self, checkpoints: MemoryCheckpoints) -> None:
        self._checkpoints = checkpoints
        self._touched: dict[int, None] = {}
        self.outcome: bool | None = None
        """True: committed; False: aborted; None: open."""

    def put(self, partition: int, key: bytes, value: bytes | None) -> int:
        """Write a record; return its position."""
        if self.outcome is not None:
            raise ValueError("the transaction is decided")
        self._touched[partition] = None
        return self._checkpoints._append(partition, key, value, self)

    def commit(self) -> None:
        """Make all records visible at once."""
        self._decide(True)

    def abort(self) -> None:
        """Drop all records. Idempotent."""
        if self.outcome is not False:
            self._decide(False)

    def _decide(self, outcome: bool) -> None:
        with self._checkpoints._lock:
            if self.outcome is not None:
                raise ValueError("the transaction is decided")
            self.outcome = outcome
            for partition in self._touched:
                self._checkpoints._append(partition, None, None, None)


def _counts(one: _Record) -> bool:
    """Return whether readers see the record once every transaction before it is decided."""
    return one.key is not None and (one.transaction is None or one.transaction.outcome is True)
