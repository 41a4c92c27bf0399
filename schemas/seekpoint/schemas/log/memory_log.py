"""The log in memory: reader and writer at once, and complete: the tutorial, the test double and the specification."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import JournalGap, JournalUnavailable, LogTruncated, SeekpointError, TransactionOpen
from seekpoint.schemas.log.log_ports import Batch, Delivery, Extent, Landmark, Outgoing, Record, Watermarks
from seekpoint.schemas.log.tail import TailBatch
from seekpoint.schemas.wire.codec import Codec

__all__ = ["MemoryAppender", "MemoryLog", "MemoryTable", "MemoryTail"]


@dataclass(slots=True)
class _LogPartition:
    low: int = 0
    records: list[Record] = field(default_factory=list)
    high: int = 0
    hidden_from: int | None = None
    """What a foreign transaction hides begins here."""
    elections: list[Landmark] = field(default_factory=lambda: [Landmark(0, 0)])
    """From which offset on which leader took the records."""

    @property
    def stable(self) -> int:
        """The end of what can be read."""
        return self.high if self.hidden_from is None else self.hidden_from

    def landmark(self, offset: int) -> Landmark:
        """The record at ``offset``."""
        return Landmark(offset, next(one.leader_epoch for one in reversed(self.elections) if one.offset <= offset))


class MemoryLog:
    """A log in memory, shared by everyone who holds it. What a test wants to break has a name:

    ``drop_acknowledgements()``, ``refuse_appends()``, ``heal()``, ``trim(partition, offset)``,
    ``elect(partition, offset)``, ``hide(partition)``, ``reveal(partition)``.
    """

    def __init__(self, partitions: int = 8, limits: Limits = DEFAULT_LIMITS, name: str = "memory") -> None:
        self.partitions = partitions
        self.limits = limits
        self.name = name
        self.topic_id = f"{name}.1"
        self.codec = Codec(limits)
        self._parts = [_LogPartition() for _ in range(partitions)]
        self._tables: dict[str, MemoryTable] = {}
        self._lock = threading.RLock()
        self.grown = threading.Condition(self._lock)
        """Told of each record that is appended: for whoever waits at the end."""
        self._appenders: WeakSet[MemoryAppender] = WeakSet()
        self._lands = self._answers = True

    # reading
    def watermarks(self, partition: int) -> Watermarks:
        """First and next offset."""
        part = self._parts[partition]
        return Watermarks(part.low, part.stable)

    def extent(self, partition: int) -> Extent:
        """The same, and where the partition ends with what is hidden."""
        end = self._parts[partition].high
        low, high = self.watermarks(partition)
        return Extent(low, high, max(end, high))

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Batches of the records in [start, stop) whose key is in ``keys``."""
        part = self._parts[partition]
        if start >= stop:
            return
        if stop > part.high and start >= part.low:
            raise LogTruncated(
                "the log ends before", journal=self.name, partition=partition, offset=stop, high=part.high
            )
        if stop > part.stable:
            raise TransactionOpen("a transaction hides what is asked for", partition=partition, offset=part.stable)
        while start < stop:
            with self._lock:
                if start < part.low:  # trimmed meanwhile, or before
                    raise JournalGap(
                        "history is gone", journal=self.name, partition=partition, low=part.low, high=part.high
                    )
                first = bisect_left(part.records, start, key=lambda record: record.offset)
                found = [record for record in part.records[first : first + 500] if record.offset < stop]
            end = found[-1].offset + 1 if len(found) == 500 else stop
            kept = found if keys is None else [record for record in found if record.key in keys]
            seen = part.landmark(found[0].offset) if found else None
            yield Batch(kept, len(found), sum(_width(record) for record in found), end, seen)
            start = end

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """The first offset whose record is not older than ``timestamp_ms``."""
        part = self._parts[partition]
        with self._lock:
            return next((record.offset for record in part.records if record.timestamp_ms >= timestamp_ms), part.stable)

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """The leader epoch of the record at exactly ``offset``, -1 if there is none."""
        part = self._parts[partition]
        with self._lock:
            there = any(record.offset == offset for record in part.records)
            return part.landmark(offset).leader_epoch if there else -1

    def landmark(self, partition: int, offset: int) -> Landmark:
        """The record at ``offset``, by the leader that took it."""
        return self._parts[partition].landmark(offset)

    def tail(self) -> MemoryTail:
        """A new tail."""
        return MemoryTail(self)

    def check(self) -> None:
        """It is."""

    def table(self, name: str) -> MemoryTable:
        """The compacted topic ``name``."""
        return self._tables.setdefault(name, MemoryTable())

    def close(self) -> None:
        """Nothing to give up."""

    # writing
    def append(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> int:
        """Append one record at once, whatever it is; its offset. (A node appends through ``appender``.)"""
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        with self._lock:
            part = self._parts[partition]
            part.records.append(Record(partition, part.high, stamp, key, value))
            part.high += 1
            self.grown.notify_all()
            return part.high - 1

    def appender(self, deliver: Callable[[Sequence[Delivery]], None]) -> MemoryAppender:
        """A new appender."""
        made = MemoryAppender(self, deliver)
        self._appenders.add(made)
        return made

    # faults
    def drop_acknowledgements(self) -> None:
        """Appends land, but nobody is told until ``heal``; or is told of an error when the appender is retired."""
        self._lands, self._answers = True, False

    def refuse_appends(self) -> None:
        """Appends neither land nor are answered, as if the broker were gone."""
        self._lands = self._answers = False

    def heal(self) -> None:
        """Appends land and are acknowledged again, those that waited first."""
        self._lands = self._answers = True
        for appender in list(self._appenders):
            appender.send(())

    def trim(self, partition: int, offset: int) -> None:
        """Delete the records below ``offset``."""
        with self._lock:
            part = self._parts[partition]
            part.records = [record for record in part.records if record.offset >= offset]
            part.low = max(part.low, min(offset, part.high))

    def hide(self, partition: int) -> None:
        """A foreign transaction begins: what is appended from now on cannot be read until ``reveal``."""
        with self._lock:
            self._parts[partition].hidden_from = self._parts[partition].high

    def reveal(self, partition: int) -> None:
        """The transaction ends."""
        with self._lock:
            self._parts[partition].hidden_from = None
            self.grown.notify_all()

    def elect(self, partition: int, offset: int | None = None) -> None:
        """A new leader; an unclean one does not have the records from ``offset`` on: they are lost."""
        with self._lock:
            part = self._parts[partition]
            if offset is not None:
                part.records = [record for record in part.records if record.offset < offset]
                part.high = min(part.high, offset)
            epoch = part.elections[-1].leader_epoch + 1
            part.elections = [one for one in part.elections if one.offset < part.high or one.offset == 0]
            part.elections.append(Landmark(part.high, epoch))


def _width(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


class MemoryAppender:
    """An appender of a ``MemoryLog``."""

    def __init__(self, log: MemoryLog, deliver: Callable[[Sequence[Delivery]], None]) -> None:
        self._log = log
        self._deliver = deliver
        self._waiting: list[Outgoing] = []
        self._landed: list[Delivery] = []
        self._retired = False

    def send(self, records: Sequence[Outgoing]) -> int:
        """Append all of ``records``; deliver before returning, unless a fault is switched on."""
        if self._retired:
            return 0
        with self._log._lock:
            self._waiting += records
            if self._log._lands:
                self._landed += [self._land(record) for record in self._waiting]
                self._waiting = []
            answered, self._landed = (self._landed, []) if self._log._answers else ([], self._landed)
        if answered:
            self._deliver(answered)
        return len(records)

    def _land(self, record: Outgoing) -> Delivery:
        return Delivery(record.token, self._log.append(record.partition, record.key, record.value), None)

    def retire(self, drain_s: float) -> None:
        """Answer what is open with an error."""
        if self._retired:
            return
        self._retired = True
        lost = JournalUnavailable("the appender was retired before an acknowledgement came")
        open_tokens = [*(one.token for one in self._landed), *(one.token for one in self._waiting)]
        if open_tokens:
            self._deliver([Delivery(token, -1, lost) for token in open_tokens])


class MemoryTable:
    """A table of a ``MemoryLog``."""

    def __init__(self) -> None:
        self._items: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write; None deletes."""
        self._items.pop(key, None)  # what is written anew is the newest
        if value is not None:
            self._items[key] = value

    def items(self) -> Mapping[bytes, bytes]:
        """The newest value of each key."""
        return dict(self._items)

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        """Each key with its newest value, one by one."""
        yield from self.items().items()


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

    def poll(self, timeout_s: float) -> list[TailBatch]:
        """What has come."""
        with self._log.grown:
            found = self._found()
            if not found:
                self._log.grown.wait(timeout_s)
                found = self._found()
            return found

    def _found(self) -> list[TailBatch]:
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
                found.append(TailBatch(partition, (), _none, position, broken=True))
        return found

    def _stretch(self, partition: int, records: Sequence[Record], next_offset: int) -> TailBatch:
        landmarks = [self._log.landmark(partition, record.offset) for record in (*records[:1], *records[-1:])]
        first, last = landmarks if landmarks else (None, None)
        return TailBatch(partition, [record.key for record in records], records.__getitem__, next_offset, first, last)

    def close(self) -> None:
        """Nothing to give up."""


def _none(index: int) -> Record:
    raise IndexError(index)
