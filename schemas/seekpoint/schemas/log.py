"""The log: the one seam between Seekpoint and Kafka, and its in-memory twin.

A log has numbered partitions of records; a record's offset is its place. ``LogReader`` and ``LogWriter`` are the two
halves (consumers bring the one, producers the other); ``MemoryLog`` is both at once, complete: the tutorial, the test
double and the specification. One contract suite runs on all of them.

All calls block and are safe from any thread, unless said otherwise.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from weakref import WeakSet

from seekpoint.schemas.codec import Codec
from seekpoint.schemas.errors import JournalGap, JournalUnavailable, LogTruncated, SeekpointError
from seekpoint.schemas.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.tail import MemoryTail, Tail

__all__ = [
    "Appender",
    "Batch",
    "Delivery",
    "Landmark",
    "LogReader",
    "LogWriter",
    "MemoryLog",
    "Outgoing",
    "Record",
    "Table",
    "Watermarks",
]


class Record(NamedTuple):
    """One record of the log. ``timestamp_ms`` since 1970; ``key`` or ``value`` is None where there is none."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Landmark(NamedTuple):
    """A record, by its offset and the epoch of the leader that took it: -1 where that is not known.

    An offset that later has another epoch is another record: the log was truncated in between.
    """

    offset: int
    leader_epoch: int


class Batch(NamedTuple):
    """What one step of a read found: ``records`` (those asked for), and what was passed over to find them."""

    records: Sequence[Record]
    scanned: int
    """Records read, foreign ones included."""
    bytes: int
    """Bytes of keys and values read, foreign ones included."""
    next_offset: int
    """Everything below it has been read; offsets may have holes."""
    first: Landmark | None = None
    """The first record of those that were passed over, foreign or not."""


class Watermarks(NamedTuple):
    """Where a partition begins and ends: ``low`` is the first offset there is, ``high`` the next one to come."""

    low: int
    high: int


class Outgoing(NamedTuple):
    """A record to append. ``token`` comes back with its delivery."""

    partition: int
    key: bytes
    value: bytes
    token: object


class Delivery(NamedTuple):
    """What became of an append: an offset, or an error (then it may or may not be in the log)."""

    token: object
    offset: int
    error: SeekpointError | None


class LogReader(Protocol):
    """Reads committed records."""

    name: str
    """The journal's name, for messages and reports."""

    @property
    def partitions(self) -> int:
        """How many there are; keys map to them by ``partition_of``."""

    @property
    def codec(self) -> Codec:
        """Decodes the journal's entries, whatever schema they were written with."""

    @property
    def limits(self) -> Limits:
        """What the journal accepts: the fold applies them too."""

    @property
    def topic_id(self) -> str:
        """The id of the journal's topic: a re-created one has another, and old offsets mean nothing there."""

    def watermarks(self, partition: int) -> Watermarks:
        """First and next offset. Raises ``JournalUnavailable``."""

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Batches of the records in [start, stop) whose key is in ``keys`` (None: all), in order.

        Ends when everything below ``stop`` has been read. Raises ``JournalGap`` if ``start`` lies below the log's
        first offset, ``LogTruncated`` if the log ends before ``stop``, ``JournalUnavailable`` if Kafka is silent.
        """

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """The first offset whose record is not older than ``timestamp_ms``; the high watermark if there is none."""

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """The leader epoch of the record at exactly ``offset``; -1 if there is none, or it is not known."""

    def tail(self) -> Tail:
        """A new tail, which follows nothing yet. Whoever takes it closes it."""

    def check(self) -> None:
        """Whether this still is the journal: ``JournalMismatch`` if its topics were re-created or re-partitioned."""

    def table(self, name: str) -> Table:
        """The compacted topic ``NAME.name``."""

    def close(self) -> None:
        """Give up connections; idempotent."""


class Table(Protocol):
    """A compacted topic: the newest value of each key."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write, and wait for the acknowledgement. None deletes. Raises ``JournalUnavailable``."""

    def items(self) -> Mapping[bytes, bytes]:
        """The newest value of each key, read to the end as of now."""


class Appender(Protocol):
    """One idempotent producer: appends of a partition keep their order; a failed one ends it."""

    def send(self, records: Sequence[Outgoing]) -> int:
        """Take records from the front of ``records``; how many were taken (the queue may be full). Never blocks."""

    def retire(self, drain_s: float) -> None:
        """Let what is on its way arrive for ``drain_s`` seconds, then drop the rest; nothing is sent afterwards.

        Every record gets its delivery before this returns. Blocks; idempotent.
        """


class LogWriter(Protocol):
    """Makes appenders."""

    def appender(self, deliver: Callable[[Sequence[Delivery]], None]) -> Appender:
        """A new appender. ``deliver`` is called from any thread, in order, with what became of the records."""


# --- the twin ---------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Partition:
    low: int = 0
    records: list[Record] = field(default_factory=list)
    high: int = 0
    elections: list[Landmark] = field(default_factory=lambda: [Landmark(0, 0)])
    """From which offset on which leader took the records."""

    def landmark(self, offset: int) -> Landmark:
        """The record at ``offset``."""
        return Landmark(offset, next(one.leader_epoch for one in reversed(self.elections) if one.offset <= offset))


class MemoryLog:
    """A log in memory, shared by everyone who holds it. What a test wants to break has a name:

    ``drop_acknowledgements()``, ``refuse_appends()``, ``heal()``, ``trim(partition, offset)``,
    ``elect(partition, offset)``.
    """

    def __init__(self, partitions: int = 8, limits: Limits = DEFAULT_LIMITS, name: str = "memory") -> None:
        self.partitions = partitions
        self.limits = limits
        self.name = name
        self.topic_id = f"{name}.1"
        self.codec = Codec(limits)
        self._parts = [_Partition() for _ in range(partitions)]
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
        return Watermarks(part.low, part.high)

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Batches of the records in [start, stop) whose key is in ``keys``."""
        part = self._parts[partition]
        if start >= stop:
            return
        if stop > part.high and start >= part.low:
            raise LogTruncated(
                "the log ends before", journal=self.name, partition=partition, offset=stop, high=part.high
            )
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
            return next((record.offset for record in part.records if record.timestamp_ms >= timestamp_ms), part.high)

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
        if value is None:
            self._items.pop(key, None)
        else:
            self._items[key] = value

    def items(self) -> Mapping[bytes, bytes]:
        """The newest value of each key."""
        return dict(self._items)
