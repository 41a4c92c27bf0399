"""The log in memory: a complete reader and writer. It serves the tutorial, tests, and as the specification."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import JournalGap, JournalUnavailable, LogTruncated, SeekpointError, TransactionOpen
from seekpoint.schemas.log.log_ports import Batch, DeliveryReport, Extent, Landmark, ProducerRecord, Record, Watermarks
from seekpoint.schemas.log.manifest import FORMAT
from seekpoint.schemas.log.tail import TailBatch
from seekpoint.schemas.wire.codec import Codec


@dataclass(slots=True)
class _LogPartition:
    low: int = 0
    records: list[Record] = field(default_factory=list)
    high: int = 0
    hidden_from: int | None = None
    """The first offset that another writer's open transaction hides."""
    elections: list[Landmark] = field(default_factory=lambda: [Landmark(0, 0)])
    """The first offset of each leader, with its epoch."""

    @property
    def stable(self) -> int:
        """The last stable offset: readers see the records below it."""
        return self.high if self.hidden_from is None else self.hidden_from

    def landmark(self, offset: int) -> Landmark:
        """Return the landmark of the record at ``offset``."""
        return Landmark(offset, next(one.leader_epoch for one in reversed(self.elections) if one.offset <= offset))


class MemoryLog:
    """A log in memory, which several readers and writers may share. Tests inject faults with these methods:

    ``drop_acknowledgements()``, ``refuse_appends()``, ``heal()``, ``trim(partition, offset)``,
    ``elect(partition, offset)``, ``hide(partition)``, ``reveal(partition)``.
    """

    def __init__(
        self,
        partitions: int = 8,
        limits: Limits = DEFAULT_LIMITS,
        name: str = "memory",
        *,
        journal_format: int = FORMAT,
        schemas: Mapping[bytes, str] | None = None,
    ) -> None:
        """``schemas`` are those of records that another release wrote, by fingerprint."""
        self.partitions = partitions
        self.limits = limits
        self.journal_format = journal_format
        self.name = name
        self.topic_id = f"{name}.1"
        self.codec = Codec(limits, schemas)
        self._partitions = [_LogPartition() for _ in range(partitions)]
        self._tables: dict[str, MemoryTable] = {}
        self._topics: dict[str, MemoryLog] = {}
        self.groups: dict[str, Any] = {}
        """The consumer groups of this topic, by name."""
        self._lock = threading.RLock()
        self.appended = threading.Condition(self._lock)
        """Notified when a record is appended or revealed."""
        self._appenders: WeakSet[MemoryAppender] = WeakSet()
        self._accepts = self._acknowledges = True

    # reading
    def watermarks(self, partition: int) -> Watermarks:
        """Return the first and the next offset."""
        part = self._partitions[partition]
        return Watermarks(part.low, part.stable)

    def extent(self, partition: int) -> Extent:
        """Return the watermarks and the end of the partition with what is hidden."""
        end = self._partitions[partition].high
        low, high = self.watermarks(partition)
        return Extent(low, high, max(end, high))

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Yield batches of the records in [start, stop) whose key is in ``keys``."""
        part = self._partitions[partition]
        if start >= stop:
            return
        if stop > part.high and start >= part.low:
            raise LogTruncated(
                "the log ends earlier", journal=self.name, partition=partition, offset=stop, high=part.high
            )
        if stop > part.stable:
            raise TransactionOpen("a transaction hides the records", partition=partition, offset=part.stable)
        while start < stop:
            with self._lock:
                if start < part.low:  # a test may trim between two batches
                    raise JournalGap(
                        "history is gone", journal=self.name, partition=partition, low=part.low, high=part.high
                    )
                place = bisect_left(part.records, start, key=lambda record: record.offset)
                found = [record for record in part.records[place : place + 500] if record.offset < stop]
            end = found[-1].offset + 1 if len(found) == 500 else stop
            selected = found if keys is None else [record for record in found if record.key in keys]
            first, last = [part.landmark(record.offset) for record in (*found[:1], *found[-1:])] or (None, None)
            yield Batch(selected, len(found), sum(_size(record) for record in found), end, first, last)
            start = end

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose record is not older than ``timestamp_ms``, else the high watermark."""
        part = self._partitions[partition]
        with self._lock:
            return next((record.offset for record in part.records if record.timestamp_ms >= timestamp_ms), part.stable)

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """Return the leader epoch of the record at exactly ``offset``, -1 if there is none."""
        part = self._partitions[partition]
        with self._lock:
            exists = any(record.offset == offset for record in part.records)
            return part.landmark(offset).leader_epoch if exists else -1

    def landmark(self, partition: int, offset: int) -> Landmark:
        """Return the landmark of the record at ``offset``."""
        return self._partitions[partition].landmark(offset)

    def tail(self, *, is_steady: bool = False) -> MemoryTail:
        """Return a new tail."""
        return MemoryTail(self)

    def check(self) -> None:
        """Do nothing: a log in memory is never re-created."""

    def table(self, name: str) -> MemoryTable:
        """Return the compacted topic ``name``."""
        return self._tables.setdefault(name, MemoryTable())

    def topic(self, name: str) -> MemoryLog:
        """Return the log of another topic of the journal, with as many partitions."""
        with self._lock:
            return self._topics.setdefault(name, MemoryLog(self.partitions, self.limits, f"{self.name}.{name}"))

    def close(self) -> None:
        """Do nothing: there are no connections."""

    # writing
    def raise_format(self) -> None:
        """Raise the journal's format to that of this code, as ``seekpoint upgrade`` does."""
        self.journal_format = FORMAT

    def append(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> int:
        """Append one record, without an appender, and return its offset."""
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        with self._lock:
            part = self._partitions[partition]
            part.records.append(Record(partition, part.high, stamp, key, value))
            part.high += 1
            self.appended.notify_all()
            return part.high - 1

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> MemoryAppender:
        """Return a new appender."""
        made = MemoryAppender(self, deliver)
        self._appenders.add(made)
        return made

    # faults
    def drop_acknowledgements(self) -> None:
        """Accept appends without acknowledging them until ``heal``; retiring the appender reports them as failed."""
        self._accepts, self._acknowledges = True, False

    def refuse_appends(self) -> None:
        """Neither accept nor acknowledge appends until ``heal``, as if the broker were down."""
        self._accepts = self._acknowledges = False

    def heal(self) -> None:
        """Accept and acknowledge appends again, beginning with those that wait."""
        self._accepts = self._acknowledges = True
        for appender in list(self._appenders):
            appender.send(())

    def trim(self, partition: int, offset: int) -> None:
        """Delete the records below ``offset``."""
        with self._lock:
            part = self._partitions[partition]
            part.records = [record for record in part.records if record.offset >= offset]
            part.low = max(part.low, min(offset, part.high))

    def hide(self, partition: int) -> None:
        """Begin a transaction of another writer: records appended from now on are unreadable until ``reveal``."""
        with self._lock:
            self._partitions[partition].hidden_from = self._partitions[partition].high

    def reveal(self, partition: int) -> None:
        """End the transaction that ``hide`` began."""
        with self._lock:
            self._partitions[partition].hidden_from = None
            self.appended.notify_all()

    def elect(self, partition: int, offset: int | None = None) -> None:
        """Elect a new leader. With ``offset`` the election is unclean: the records from there on are lost."""
        with self._lock:
            part = self._partitions[partition]
            if offset is not None:
                part.records = [record for record in part.records if record.offset < offset]
                part.high = min(part.high, offset)
            epoch = part.elections[-1].leader_epoch + 1
            part.elections = [one for one in part.elections if one.offset < part.high or one.offset == 0]
            part.elections.append(Landmark(part.high, epoch))


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


class MemoryAppender:
    """An appender of a ``MemoryLog``."""

    def __init__(self, log: MemoryLog, deliver: Callable[[Sequence[DeliveryReport]], None]) -> None:
        self._log = log
        self._deliver = deliver
        self._waiting: list[ProducerRecord] = []
        self._unacknowledged: list[DeliveryReport] = []
        self._retired = False

    def send(self, records: Sequence[ProducerRecord]) -> int:
        """Append all of ``records`` and deliver their reports before returning, unless a fault is injected."""
        if self._retired:
            return 0
        with self._log._lock:
            self._waiting += records
            if self._log._accepts:
                self._unacknowledged += [self._append(record) for record in self._waiting]
                self._waiting = []
            reports: list[DeliveryReport] = []
            if self._log._acknowledges:
                reports, self._unacknowledged = self._unacknowledged, reports
        if reports:
            self._deliver(reports)
        return len(records)

    def _append(self, record: ProducerRecord) -> DeliveryReport:
        partition, key, value, token = record
        offset = self._log.append(partition, key, value)
        at = self._log._partitions[partition]
        is_readable = at.hidden_from is None  # behind a transaction on Kafka, offsets have a hole
        return DeliveryReport(token, offset, None, at.records[offset - at.records[0].offset] if is_readable else None)

    def retire(self, drain_s: float) -> None:
        """Report each unacknowledged record as failed."""
        if self._retired:
            return
        self._retired = True
        lost = JournalUnavailable("the appender was retired before an acknowledgement came")
        open_tokens = [*(one.token for one in self._unacknowledged), *(one.token for one in self._waiting)]
        if open_tokens:
            self._deliver([DeliveryReport(token, -1, lost) for token in open_tokens])


class MemoryTable:
    """A table of a ``MemoryLog``."""

    def __init__(self) -> None:
        self._items: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value; None deletes the key."""
        self._items.pop(key, None)  # moves the key to the end: the order is that of writing
        if value is not None:
            self._items[key] = value

    def items(self) -> Mapping[bytes, bytes]:
        """Return the newest value of each key, as a copy."""
        return dict(self._items)

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key with its newest value."""
        yield from self.items().items()


class MemoryTail:
    """The tail of a ``MemoryLog``. It reads through the log's public methods, so that tests can patch those."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._positions: dict[int, int] = {}

    def begin(self, partition: int, position: int) -> None:
        """Follow ``partition`` from ``position`` on."""
        self._positions[partition] = position

    def end(self, partition: int) -> None:
        """Stop following ``partition``."""
        self._positions.pop(partition, None)

    def poll(self, timeout_s: float) -> list[TailBatch]:
        """Return new batches; wait up to ``timeout_s``."""
        with self._log.appended:
            found = self._read_new()
            if not found:
                self._log.appended.wait(timeout_s)
                found = self._read_new()
            return found

    def _read_new(self) -> list[TailBatch]:
        found = []
        for partition, position in list(self._positions.items()):
            try:
                high = self._log.watermarks(partition).high
                if high < position:
                    raise SeekpointError("the log became shorter")
                batches = self._log.read(partition, position, high) if high > position else ()
                found += [self._batch(partition, batch.records, batch.next_offset) for batch in batches]
                self._positions[partition] = high
            except SeekpointError:
                del self._positions[partition]
                found.append(TailBatch(partition, (), _no_record, position, broken=True))
        return found

    def _batch(self, partition: int, records: Sequence[Record], next_offset: int) -> TailBatch:
        landmarks = [self._log.landmark(partition, record.offset) for record in (*records[:1], *records[-1:])]
        first, last = landmarks if landmarks else (None, None)
        return TailBatch(partition, [record.key for record in records], records.__getitem__, next_offset, first, last)

    def close(self) -> None:
        """Do nothing: there are no connections."""


def _no_record(index: int) -> Record:
    raise IndexError(index)
