"""The ports of a replay: a topic to read and a topic to write. Kafka, capture files and memory implement them.

Calls block. Messages have the methods of the Kafka client's own, so a plain copy creates no object per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import field

from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Watermarks

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
OnDelivery: TypeAlias = Callable[[Any, Any], None]
"""Receives the delivery report of each record: an error (None: the record is in the log), and the message."""


class OffsetRange(NamedTuple):
    """The offsets of one partition from ``start`` up to, not including, ``stop``."""

    partition: int
    start: int
    stop: int


class ReplayMessage(Protocol):
    """One record, with the methods of the Kafka client's message."""

    def partition(self) -> int:
        """Return the partition."""

    def offset(self) -> int:
        """Return the offset."""

    def key(self) -> bytes | None:
        """Return the key."""

    def value(self) -> bytes | None:
        """Return the value; None for a tombstone."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of time (1: creation, 2: append) and milliseconds since 1970."""

    def headers(self) -> Headers | None:
        """Return the headers in order; None if there are none."""


class ReplayTopicFacts(FrozenStruct, frozen=True, kw_only=True):
    """The ids, the partition count and the settings of a topic."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's settings, with Kafka's names."""


class RangeReader(Protocol):
    """A reader of offset ranges, one per partition. Belongs to one thread."""

    def take(self, records_max: int, timeout_s: float) -> Sequence[ReplayMessage]:
        """Return some of the records of the ranges, in order by partition; none if none came."""

    def unfinished(self) -> frozenset[int]:
        """Return the partitions whose range was not read to its end."""

    def pause(self, partition: int) -> None:
        """Return no records of this partition until ``resume``."""

    def resume(self, partition: int) -> None:
        """Continue with a paused partition."""

    def close(self) -> None:
        """Close the connection."""


class ReplaySource(Protocol):
    """A topic that is read."""

    def facts(self) -> ReplayTopicFacts:
        """Return the facts of the topic. Raises ``ReplayRefused`` if there is no such topic."""

    def watermarks(self) -> Mapping[int, Watermarks]:
        """Return the first and the next offset of each partition, below any open transaction."""

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset whose record is not older; None if there is none."""

    def read(self, ranges: Sequence[OffsetRange]) -> RangeReader:
        """Read these ranges, without joining a group or committing offsets."""

    def schemas(self) -> Mapping[bytes, bytes]:
        """Return the records of the journal's schemas topic; empty if the topic is no journal."""

    def close(self) -> None:
        """Close connections; idempotent."""


class Sender(Protocol):
    """An idempotent producer of one topic."""

    def produce(
        self,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: OnDelivery,
        timestamp: int,
        headers: Any,
    ) -> None:
        """Send one record. Raises ``BufferError`` if the queue is full: ``poll``, then try again."""

    def poll(self, timeout_s: float) -> None:
        """Call ``on_delivery`` of delivered records; wait at most ``timeout_s`` for one."""

    def refusal(self, error: Any) -> SeekpointError:
        """Return Seekpoint's error for the error of a delivery."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all records are delivered; return how many are not."""

    def close(self) -> None:
        """Drop the records that are not delivered."""


class ReplayTarget(ReplaySource, Protocol):
    """A topic that is written, and read back for the comparison."""

    def sender(self, *, linger_ms: float) -> Sender:
        """Return a producer."""

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Write records to the journal's schemas topic, and wait until they are acknowledged."""

    def audit(self, key: bytes, value: bytes) -> None:
        """Write an audit entry, and wait until it is acknowledged."""
