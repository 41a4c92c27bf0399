"""The twin of a Kafka topic for replays, in memory: public, complete, with named faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seekpoint.consumers.staging.copy.senders import PromptSender
from seekpoint.consumers.staging.replay_ports import Headers, OffsetRange, OnDelivery, ReplayTopicFacts
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["MemoryTopic", "StoredMessage"]


class _PausedMessages(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] | None


class StoredMessage:
    """One record, with the methods of a client's message."""

    __slots__ = ("_held",)

    def __init__(
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers | None = None,
    ) -> None:
        self._held = _PausedMessages(
            partition, offset, key, value, timestamp_ms, None if headers is None else tuple(headers)
        )

    def partition(self) -> int:
        """Its partition."""
        return self._held.partition

    def offset(self) -> int:
        """Its offset."""
        return self._held.offset

    def key(self) -> bytes | None:
        """Its key."""
        return self._held.key

    def value(self) -> bytes | None:
        """Its value."""
        return self._held.value

    def timestamp(self) -> tuple[int, int]:
        """1 (when it was made), and milliseconds."""
        return 1, self._held.timestamp_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers; None if it has none."""
        return list(self._held.headers) if self._held.headers else None

    def __repr__(self) -> str:
        return f"Kept{tuple(self._held)}"


@dataclass(slots=True)
class _TopicPartition:
    records: list[StoredMessage] = field(default_factory=list)
    low: int = 0
    high: int = 0


class MemoryTopic:
    """A source and a target. Faults: ``compact``, ``trim``, ``crash_after``, ``lose``, ``alter``."""

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

    # --- as a topic
    def facts(self) -> ReplayTopicFacts:
        """What it is."""
        return self._facts

    def marks(self) -> dict[int, Watermarks]:
        """First and next offsets."""
        return {partition: Watermarks(part.low, part.high) for partition, part in self._parts.items()}

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older."""
        records = self._parts[partition].records
        return next((each.offset() for each in records if each.timestamp()[1] >= timestamp_ms), None)

    def read(self, stretches: Sequence[OffsetRange]) -> MemoryReading:
        """Read these stretches."""
        return MemoryReading({each.partition: self._between(each) for each in stretches})

    def schemas(self) -> dict[bytes, bytes]:
        """What was put beside it."""
        return dict(self.schema_records)

    def sender(self, *, linger_ms: float) -> MemorySender:
        """A producer."""
        return MemorySender(self)

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Keep them beside it."""
        self.schema_records.update(records)

    def audit(self, key: bytes, value: bytes) -> None:
        """Keep an audit entry."""
        self.audits.append((key, value))

    def close(self) -> None:
        """Nothing to give up."""

    # --- for tests and tutorials
    def append(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int = 1_000,
        headers: Headers | None = None,
    ) -> int:
        """Append one record; its offset."""
        part = self._parts[partition]
        part.records.append(StoredMessage(partition, part.high, key, value, timestamp_ms, headers))
        part.high += 1
        return part.high - 1

    def records(self, partition: int | None = None) -> list[StoredMessage]:
        """All there are, by partition."""
        wanted = self._parts if partition is None else (partition,)
        return [record for at in wanted for record in self._parts[at].records]

    def trim(self, partition: int, offset: int) -> None:
        """Remove what lies below ``offset``, as retention does."""
        part = self._parts[partition]
        part.records = [each for each in part.records if each.offset() >= offset]
        part.low = offset

    def compact(self, partition: int, offsets: Iterable[int]) -> None:
        """Remove single records, as compaction does."""
        gone, part = set(offsets), self._parts[partition]
        part.records = [each for each in part.records if each.offset() not in gone]

    def crash_after(self, records: int | None) -> None:
        """Whoever sends more than so many dies of ``KeyboardInterrupt``; what was sent before has arrived."""
        self._left = records

    def alter(self, partition: int, offset: int, change: Callable[[StoredMessage], StoredMessage | None]) -> None:
        """Replace a record, or lose it (None)."""
        part = self._parts[partition]
        changed = [(each, change(each) if each.offset() == offset else each) for each in part.records]
        part.records = [after for _, after in changed if after is not None]

    def _between(self, stretch: OffsetRange) -> deque[StoredMessage]:
        records = self._parts[stretch.partition].records
        return deque(each for each in records if stretch.start <= each.offset() < stretch.stop)

    def _take(self, *record: Any) -> None:
        if self._left is not None:
            if self._left == 0:
                raise KeyboardInterrupt("the fault that was asked for")
            self._left -= 1
        self.append(*record)


class MemoryReading:
    """A ``Reading``."""

    def __init__(self, waiting: dict[int, deque[StoredMessage]]) -> None:
        self._waiting = waiting
        self._held: set[int] = set()

    def take(self, records_max: int, timeout_s: float) -> list[StoredMessage]:
        """Some records of each partition that is not held."""
        taken: list[StoredMessage] = []
        for partition, waiting in self._waiting.items():
            if partition not in self._held:
                taken += [waiting.popleft() for _ in range(min(len(waiting), max(1, records_max // 4)))]
        return taken

    def unfinished(self) -> frozenset[int]:
        """Those with something left."""
        return frozenset(partition for partition, waiting in self._waiting.items() if waiting)

    def hold(self, partition: int) -> None:
        """Bring nothing of it."""
        self._held.add(partition)

    def release(self, partition: int) -> None:
        """Go on with it."""
        self._held.discard(partition)

    def close(self) -> None:
        """Nothing to give up."""


class MemorySender(PromptSender):
    """A ``Sender``: what is sent has arrived, and is told of at the next poll."""

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
        """Append."""
        if len(self._deliveries) >= self._topic.queue_max:
            raise BufferError("the queue is full")
        self._topic._take(partition, key, value, timestamp, list(headers))
        self._deliveries.append(on_delivery)
