"""The ports of the log: the only interface between Seekpoint and Kafka.

A log has numbered partitions of records, and each record has an offset in its partition. The package ``consumers``
implements ``LogReader`` on Kafka, ``producers`` implements ``LogWriter``, and ``memory_log`` implements both in memory.
One contract suite runs on all of them.

All calls block and are thread-safe, unless their docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.errors import SeekpointError
    from seekpoint.schemas.log.tail import Tail
    from seekpoint.schemas.wire.codec import Codec


class Record(NamedTuple):
    """One record of the log. ``timestamp_ms`` counts from 1970; a missing ``key`` or ``value`` is None."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Landmark(NamedTuple):
    """The identity of a record: its offset and the epoch of the leader that appended it, -1 if that is unknown.

    If the offset later has another epoch, the log was truncated in between and this is another record.
    """

    offset: int
    leader_epoch: int


class Batch(NamedTuple):
    """One batch of a read: the ``records`` with the requested keys, and counts of all records that were read."""

    records: Sequence[Record]
    scanned: int
    """The number of records read, those of other keys included where the log has to pass over them."""
    bytes: int
    """The bytes of the keys and values of these records."""
    next_offset: int
    """The offset below which everything has been read; offsets may have holes."""
    first: Landmark | None = None
    """The first record that was read, whatever its key."""
    last: Landmark | None = None
    """The last one."""


class Watermarks(NamedTuple):
    """The bounds of a partition for readers: ``low`` is its first offset, ``high`` the next one."""

    low: int
    high: int


class Extent(NamedTuple):
    """The watermarks of a partition and its ``end``, which includes the records that an open transaction hides."""

    low: int
    high: int
    end: int

    @property
    def hidden(self) -> int:
        """The number of offsets that were written and cannot be read yet."""
        return max(0, self.end - self.high)


class ProducerRecord(NamedTuple):
    """A record to append. Its delivery report carries the same ``token``."""

    partition: int
    key: bytes
    value: bytes
    token: object


class DeliveryReport(NamedTuple):
    """The outcome of an append: an offset or an error. After an error the record may or may not be in the log."""

    token: object
    offset: int
    error: SeekpointError | None
    record: Record | None = None
    """The record at its offset, as a reader gets it; None if the log does not tell. See ``Tailer.take_written``."""


class LogReader(Protocol):
    """Reads committed records."""

    name: str
    """The journal's name, for messages and reports."""

    @property
    def partitions(self) -> int:
        """The number of partitions; ``partition_of`` maps keys to them."""

    @property
    def codec(self) -> Codec:
        """The codec that decodes the journal's entries, whatever schema they were written with."""

    @property
    def limits(self) -> Limits:
        """The limits of the journal; the fold applies them too."""

    @property
    def journal_format(self) -> int:
        """The format of the journal when it was opened: ``refuse_older_format`` compares it with that of this code."""

    @property
    def topic_id(self) -> str:
        """The id of the journal's topic. A re-created topic has another id, and stored offsets are invalid there."""

    def watermarks(self, partition: int) -> Watermarks:
        """Return the first and the next offset. Raises ``JournalUnavailable``."""

    def extent(self, partition: int) -> Extent:
        """Return the watermarks and the end of the partition with what an open transaction hides.

        Raises ``JournalUnavailable``.
        """

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Yield batches of the records in [start, stop) whose key is in ``keys`` (None: all), in order.

        Ends when everything below ``stop`` has been read. Raises ``JournalGap`` if ``start`` lies below the log's
        first offset, ``LogTruncated`` if the log ends before ``stop``, ``JournalUnavailable`` if Kafka does not answer.
        """

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose record is not older than ``timestamp_ms``, else the high watermark."""

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """Return the leader epoch of the record at exactly ``offset``; -1 if there is no record or no known epoch."""

    def tail(self, *, is_steady: bool = False) -> Tail:
        """Return a new tail, which follows no partition yet. The caller closes it.

        ``is_steady``: its partitions rarely change, so a new one may take longer if the others cost less then.
        """

    def check(self) -> None:
        """Raise ``JournalMismatch`` if the journal's topics were re-created or re-partitioned."""

    def table(self, name: str) -> Table:
        """Return the compacted topic ``NAME.name``."""

    def close(self) -> None:
        """Close the connections. Idempotent."""


class Table(Protocol):
    """A compacted topic: the newest value of each key."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value and wait for the acknowledgement; None deletes the key. Raises ``JournalUnavailable``."""

    def items(self) -> Mapping[bytes, bytes]:
        """Return the newest value of each key, read up to the present end."""

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key with its newest value up to the present end, in the order in which they were written.

        Only one value is in memory at a time, so topics with many large values can be read.
        """


class Appender(Protocol):
    """One idempotent producer. Appends to a partition stay in order; after a failed append it accepts no more."""

    def send(self, records: Sequence[ProducerRecord]) -> int:
        """Enqueue records from the front of ``records`` and return how many the queue had room for. Never blocks."""

    def retire(self, drain_s: float) -> None:
        """Wait up to ``drain_s`` seconds for records in flight, then purge the rest and send nothing more.

        Every record gets its delivery report before this returns. Blocks; idempotent.
        """


class LogWriter(Protocol):
    """The writing side of a log: a factory of appenders."""

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> Appender:
        """Return a new appender. It calls ``deliver`` with the delivery reports in order, from any thread."""
