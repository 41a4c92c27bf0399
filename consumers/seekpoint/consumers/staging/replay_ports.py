"""What a replay needs of the world: a topic to read, a topic to write. Kafka, a file and memory bring it.

Calls block. Messages look like the Kafka client's own, so that a plain copy makes no object beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol, TypeAlias

from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = [
    "Headers",
    "OffsetRange",
    "OnDelivery",
    "Reading",
    "ReplayMessage",
    "ReplaySource",
    "ReplayTarget",
    "ReplayTopicFacts",
    "Sender",
]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
OnDelivery: TypeAlias = Callable[[Any, Any], None]
"""Told of each record that was sent: an error, or None and it is in the log."""


class OffsetRange(NamedTuple):
    """The offsets of one partition from ``start`` up to, not including, ``stop``."""

    partition: int
    start: int
    stop: int


class ReplayMessage(Protocol):
    """One record, as the Kafka client hands it out."""

    def partition(self) -> int:
        """Its partition."""

    def offset(self) -> int:
        """Its offset."""

    def key(self) -> bytes | None:
        """Its key."""

    def value(self) -> bytes | None:
        """Its value; None is a tombstone."""

    def timestamp(self) -> tuple[int, int]:
        """A kind (1: when it was made, 2: when it was appended), and milliseconds since 1970."""

    def headers(self) -> Headers | None:
        """Its headers in order; None if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTopicFacts:
    """What a topic is."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's settings, as Kafka has them."""


class Reading(Protocol):
    """Stretches that are being read. One thread's."""

    def take(self, records_max: int, timeout_s: float) -> Sequence[Any]:
        """Return some of the records (``ReplayMessage``) of the ranges, in order by partition; none if none came."""

    def unfinished(self) -> frozenset[int]:
        """The partitions whose stretch was not read to its end."""

    def hold(self, partition: int) -> None:
        """Bring nothing of this partition until it is released."""

    def release(self, partition: int) -> None:
        """Go on where it was held."""

    def close(self) -> None:
        """Give up the connection."""


class ReplaySource(Protocol):
    """A topic that is read."""

    def facts(self) -> ReplayTopicFacts:
        """What it is. Raises ``ReplayRefused`` if it is not there."""

    def marks(self) -> Mapping[int, Watermarks]:
        """First and next offset of each partition; below any open transaction."""

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older; None if there is none."""

    def read(self, stretches: Sequence[OffsetRange]) -> Reading:
        """Read these, in no group, committing nothing."""

    def schemas(self) -> Mapping[bytes, bytes]:
        """What lies in the schemas topic beside a journal's topic; empty if it is no journal."""

    def close(self) -> None:
        """Give up connections; idempotent."""


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
        """Send one record. Raises ``BufferError`` if the queue is full: ``poll``, and try again."""

    def poll(self, timeout_s: float) -> None:
        """Tell of deliveries; waits at most so long for one."""

    def refusal(self, error: Any) -> SeekpointError:
        """What a delivery's error means."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all is delivered; how many still are not."""

    def close(self) -> None:
        """Drop what is not delivered."""


class ReplayTarget(ReplaySource, Protocol):
    """A topic that is written; and read, to see what arrived."""

    def sender(self, *, linger_ms: float) -> Sender:
        """A producer."""

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Write into the schemas topic beside it, and wait."""

    def audit(self, key: bytes, value: bytes) -> None:
        """Keep an audit entry for ever, and wait until it is kept."""
