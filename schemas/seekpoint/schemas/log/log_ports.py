"""The log: the one seam between Seekpoint and Kafka.

A log has numbered partitions of records; a record's offset is its place. ``LogReader`` and ``LogWriter`` are the two
halves (consumers bring the one, producers the other); ``memory_log`` has both at once, in memory. One contract suite
runs on all of them.

All calls block and are safe from any thread, unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.errors import SeekpointError
    from seekpoint.schemas.log.tail import Tail
    from seekpoint.schemas.wire.codec import Codec

__all__ = [
    "Appender",
    "Batch",
    "Delivery",
    "Extent",
    "Landmark",
    "LogReader",
    "LogWriter",
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


class Extent(NamedTuple):
    """Watermarks, and where the partition ends for those who write: ``end`` counts what an open transaction hides."""

    low: int
    high: int
    end: int

    @property
    def hidden(self) -> int:
        """How many offsets were written and cannot be read yet."""
        return max(0, self.end - self.high)


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

    def extent(self, partition: int) -> Extent:
        """The same, and where the partition ends with what an open transaction hides. Raises ``JournalUnavailable``."""

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

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        """Each key with its newest value as of now, one by one, in the order in which they were written.

        No value is kept: for topics whose values may be large and many.
        """


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
