"""Checkpoints in memory: the twin of the compacted topic, with transactions and with what a test wants to break.

>>> kept = MemoryCheckpoints()
>>> kept.write(0, [(b"case-17", b"1"), (b"case-17", b"2")])
[0, 1]
>>> kept.compact(0)
>>> list(kept.records(0, 0, kept.stable_end(0)))
[(1, b'case-17', b'2')]
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seekpoint.schemas.errors import JournalUnavailable, LogTruncated

__all__ = ["MemoryCheckpoints", "MemoryTransaction"]


@dataclass(slots=True)
class _Record:
    """One record, and the transaction it was written in. A marker, which nobody sees, has no key."""

    position: int
    key: bytes | None
    value: bytes | None
    transaction: MemoryTransaction | None


@dataclass(slots=True)
class _CheckpointPartition:
    records: list[_Record] = field(default_factory=list)
    end: int = 0


class MemoryCheckpoints:
    """A ``CheckpointReader`` that can be written too. Thread safe; nothing blocks.

    Positions are as on Kafka: whatever is decided, a transaction's marker takes one in each partition it wrote to.
    Faults have names: ``compact``, ``corrupt``, ``recreate``, and a transaction that is begun and never decided.
    """

    def __init__(self, partitions: int = 8) -> None:
        self.partitions = partitions
        self._parts = [_CheckpointPartition() for _ in range(partitions)]
        self._lock = threading.RLock()

    # reading
    def end(self, partition: int) -> int:
        """The next position, open transactions included."""
        return self._parts[partition].end

    def stable_end(self, partition: int) -> int:
        """Everything below it is decided."""
        with self._lock:
            part = self._parts[partition]
            undecided = (one.position for one in part.records if one.transaction and one.transaction.outcome is None)
            return next(undecided, part.end)

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """The committed records in [start, stop). ``JournalUnavailable`` where an undecided transaction is in the way.

        A reader of Kafka waits for it first; here nothing would change meanwhile.
        """
        if start >= stop:
            return
        if stop > self.end(partition):
            raise LogTruncated("the checkpoints end before", partition=partition, offset=stop, high=self.end(partition))
        if stop > self.stable_end(partition):
            raise JournalUnavailable("an open transaction hides checkpoints", partition=partition, offset=stop)
        with self._lock:
            found = [one for one in self._parts[partition].records if start <= one.position < stop and _counts(one)]
        for one in found:
            assert one.key is not None
            yield one.position, one.key, one.value

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """The value at exactly ``position`` if it is there under ``key``."""
        with self._lock:
            found = (one for one in self._parts[partition].records if one.position == position)
            one = next(found, None)
        if one is None or one.key != key or not _counts(one) or position >= self.stable_end(partition):
            return None
        return one.value

    # writing
    def write(self, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        """Append records one by one, without a transaction; their positions."""
        return [self._append(partition, key, value, None) for key, value in records]

    def begin(self) -> MemoryTransaction:
        """A transaction: its records are there for nobody until it commits, and hold back what comes after them."""
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
        """Drop every record below ``below`` (None: the stable end) that a later committed one of its key replaces."""
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
        """Replace the value at ``position``; without ``value`` by itself with its last byte flipped."""
        with self._lock:
            [one] = [one for one in self._parts[partition].records if one.position == position]
            assert one.value
            one.value = one.value[:-1] + bytes([one.value[-1] ^ 1]) if value is None else value

    def recreate(self) -> None:
        """All partitions begin anew, empty, as when the topic was deleted and made again."""
        with self._lock:
            self._parts = [_CheckpointPartition() for _ in range(self.partitions)]


class MemoryTransaction:
    """A transaction on ``MemoryCheckpoints``, of any of its partitions."""

    def __init__(self, kept: MemoryCheckpoints) -> None:
        self._kept = kept
        self._touched: dict[int, None] = {}
        self.outcome: bool | None = None
        """Committed, aborted, or None: open."""

    def put(self, partition: int, key: bytes, value: bytes | None) -> int:
        """Write a record; its position."""
        if self.outcome is not None:
            raise ValueError("the transaction is decided")
        self._touched[partition] = None
        return self._kept._append(partition, key, value, self)

    def commit(self) -> None:
        """All of it is there, at once."""
        self._decide(True)

    def abort(self) -> None:
        """Nothing of it is there, ever. Harmless after an abort."""
        if self.outcome is not False:
            self._decide(False)

    def _decide(self, outcome: bool) -> None:
        with self._kept._lock:
            if self.outcome is not None:
                raise ValueError("the transaction is decided")
            self.outcome = outcome
            for partition in self._touched:
                self._kept._append(partition, None, None, None)


def _counts(one: _Record) -> bool:
    """Whether readers see it, once everything before it is decided."""
    return one.key is not None and (one.transaction is None or one.transaction.outcome is True)
