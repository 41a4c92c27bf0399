"""A topic in memory for replays, with faults that tests can name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seekpoint.consumers.staging.copy.senders import ImmediateSender
from seekpoint.consumers.staging.replay_ports import Headers, OffsetRange, OnDelivery, ReplayTopicFacts
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["MemoryTopic", "StoredMessage"]


class _StoredFields(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] | None


class StoredMessage:
    """One record, with the methods of the Kafka client's message."""

    __slots__ = ("_fields",)

    def __init__(
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers | None = None,
    ) -> None:
        self._fields = _StoredFields(
            partition, offset, key, value, timestamp_ms, None if headers is None else tuple(headers)
        )

    def partition(self) -> int:
        """Return the partition."""
        return self._fields.partition

    def offset(self) -> int:
        """Return the offset."""
        return self._fields.offset

    def key(self) -> bytes | None:
        """Return the key."""
        return self._fields.key

    def value(self) -> bytes | None:
        """Return the value."""
        return self._fields.value

    def timestamp(self) -> tuple[int, int]:
        """Return 1 (creation time), and milliseconds since 1970."""
        return 1, self._fields.timestamp_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers; None if there are none."""
        return list(self._fields.headers) if self._fields.headers else None

    def __repr__(self) -> str:
        return f"StoredMessage{tuple(self._fields)}"


@dataclass(slots=True)
class _TopicPartition:
    records: list[StoredMessage] = field(default_factory=list)
    low: int = 0
    high: int = 0


class MemoryTopic:
    """A source and a target. Faults: ``compact``, ``trim``, ``crash_after``, ``alter``."""

    def __init__(
        self,
        partitions: int = 4,
        *,
        cluster_id: str = "memory",
        topic: str = "memory.journal",
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.audits: list[tuple[bytes, bytes]] = []
        self.schema_records: dict[bytes, bytes] = {}
        self.queue_max = 100_000
        self._facts = ReplayTopicFacts(
            cluster_id=cluster_id,
            topic=topic,
            topic_id=f"{cluster_id}/{topic}.1",
            partitions=partitions,
            config=dict(config or {}),
        )
        self._parts = {partition: _TopicPartition() for partition in range(partitions)}
        self._left: int | None = None

    # --- ReplaySource and ReplayTarget
    def facts(self) -> ReplayTopicFacts:
        """Return the facts of the topic."""
        return self._facts

    def watermarks(self) -> dict[int, Watermarks]:
        """Return the first and next offsets."""
        return {partition: Watermarks(part.low, part.high) for partition, part in self._parts.items()}

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset whose record is not older; None if there is none."""
        records = self._parts[partition].records
        return next((each.offset() for each in records if each.timestamp()[1] >= timestamp_ms), None)

    def read(self, ranges: Sequence[OffsetRange]) -> MemoryRangeReader:
        """Read these ranges."""
        return MemoryRangeReader({each.partition: self._between(each) for each in ranges})

    def schemas(self) -> dict[bytes, bytes]:
        """Return the records of the schemas topic."""
        return dict(self.schema_records)

    def sender(self, *, linger_ms: float) -> MemorySender:
        """Return a producer."""
        return MemorySender(self)

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Add records to the schemas topic."""
        self.schema_records.update(records)

    def audit(self, key: bytes, value: bytes) -> None:
        """Store an audit entry."""
        self.audits.append((key, value))

    def close(self) -> None:
        """Do nothing."""

    # --- for tests and tutorials
    def append(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int = 1_000,
        headers: Headers | None = None,
    ) -> int:
        """Append one record; return its offset."""
        part = self._parts[partition]
        part.records.append(StoredMessage(partition, part.high, key, value, timestamp_ms, headers))
        part.high += 1
        return part.high - 1

    def records(self, partition: int | None = None) -> list[StoredMessage]:
        """Return all records, by partition."""
        wanted = self._parts if partition is None else (partition,)
        return [record for at in wanted for record in self._parts[at].records]

    def trim(self, partition: int, offset: int) -> None:
        """Remove the records below ``offset``, as retention does."""
        part = self._parts[partition]
        part.records = [each for each in part.records if each.offset() >= offset]
        part.low = offset

    def compact(self, partition: int, offsets: Iterable[int]) -> None:
        """Remove single records, as compaction does."""
        gone, part = set(offsets), self._parts[partition]
        part.records = [each for each in part.records if each.offset() not in gone]

    def crash_after(self, records: int | None) -> None:
        """Raise ``KeyboardInterrupt`` in a sender after so many more records; those are in the topic."""
        self._left = records

    def alter(self, partition: int, offset: int, change: Callable[[StoredMessage], StoredMessage | None]) -> None:
        """Replace a record, or remove it if ``change`` returns None."""
        part = self._parts[partition]
        changed = [(each, change(each) if each.offset() == offset else each) for each in part.records]
        part.records = [after for _, after in changed if after is not None]

    def _between(self, offset_range: OffsetRange) -> deque[StoredMessage]:
        records = self._parts[offset_range.partition].records
        return deque(each for each in records if offset_range.start <= each.offset() < offset_range.stop)

    def _take(self, *record: Any) -> None:
        if self._left is not None:
            if self._left == 0:
                raise KeyboardInterrupt("crash_after")
            self._left -= 1
        self.append(*record)


class MemoryRangeReader:
    """A ``RangeReader`` in memory."""

    def __init__(self, waiting: dict[int, deque[StoredMessage]]) -> None:
        self._waiting = waiting
        self._paused: set[int] = set()

    def take(self, records_max: int, timeout_s: float) -> list[StoredMessage]:
        """Return some records of each partition that is not paused."""
        taken: list[StoredMessage] = []
        for partition, waiting in self._waiting.items():
            if partition not in self._paused:
                taken += [waiting.popleft() for _ in range(min(len(waiting), max(1, records_max // 4)))]
        return taken

    def unfinished(self) -> frozenset[int]:
        """Return the partitions with records that were not read."""
        return frozenset(partition for partition, waiting in self._waiting.items() if waiting)

    def pause(self, partition: int) -> None:
        """Pause a partition."""
        self._paused.add(partition)

    def resume(self, partition: int) -> None:
        """Resume a partition."""
        self._paused.discard(partition)

    def close(self) -> None:
        """Do nothing."""


class MemorySender(ImmediateSender):
    """A ``Sender`` whose records are in the topic at once, and are reported at the next poll."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__()
        self._topic = topic

    def produce(
        self,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: OnDelivery,
        timestamp: int,
        headers: Any,
    ) -> None:
        """Append a record. Raises ``BufferError`` if ``queue_max`` records are not reported."""
        if len(self._deliveries) >= self._topic.queue_max:
            raise BufferError("the queue is full")
        self._topic._take(partition, key, value, timestamp, list(headers))
        self._deliveries.append(on_delivery)
