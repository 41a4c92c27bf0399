"""The port to the topics of recovery requests (``NAME.recover``) and answers (``NAME.recovered``).

It has an implementation on Kafka and a twin in memory. Calls block and are safe from any thread.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Literal, Protocol

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.log.log_ports import Record

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

Kind = Literal["recover", "recovered"]
_END = 1 << 62


class Exchange(Protocol):
    """The topic of requests and the topic of answers. Both have the journal's partitions."""

    @property
    def partitions(self) -> int:
        """The number of partitions of each topic."""

    @property
    def limits(self) -> Limits:
        """The limits of a record."""

    def send(self, kind: Kind, partition: int, key: bytes, value: bytes) -> None:
        """Write a record and wait for its acknowledgement. Raises ``JournalUnavailable``, ``JournalMismatch``."""

    def end(self, kind: Kind, partition: int) -> int:
        """Return the partition's end. Raises as ``send`` does."""

    def read(self, kind: Kind, partition: int, start: int) -> tuple[list[Record], int]:
        """Return the records from ``start`` on, and the partition's end. Deleted records are left out."""


class KafkaExchange:
    """The exchange on Kafka, through the journal's reader. It needs no permission to read the journal's entries."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader

    @property
    def partitions(self) -> int:
        """The number of the journal's partitions."""
        return self._reader.partitions

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self._reader.limits

    def send(self, kind: Kind, partition: int, key: bytes, value: bytes) -> None:
        """Write a record and wait for its acknowledgement."""
        self._reader.produce(self._topic(kind), partition, key, value)

    def end(self, kind: Kind, partition: int) -> int:
        """Return the partition's end."""
        return self._reader.read_newer(self._topic(kind), partition, _END)[1]

    def read(self, kind: Kind, partition: int, start: int) -> tuple[list[Record], int]:
        """Return the records from ``start`` on, and the partition's end."""
        return self._reader.read_newer(self._topic(kind), partition, start)

    def _topic(self, kind: Kind) -> str:
        return self._reader.settings.topic_name(kind)


class MemoryExchange:
    """The exchange in memory. ``lose`` makes records vanish, for tests."""

    def __init__(self, partitions: int = 8, limits: Limits = DEFAULT_LIMITS) -> None:
        self.partitions = partitions
        self.limits = limits
        self._records: dict[tuple[Kind, int], list[Record]] = defaultdict(list)
        self._lost: dict[Kind, int] = {"recover": 0, "recovered": 0}
        self._lock = threading.Lock()

    def send(self, kind: Kind, partition: int, key: bytes, value: bytes) -> None:
        """Write a record."""
        with self._lock:
            if self._lost[kind] > 0:
                self._lost[kind] -= 1
                return
            records = self._records[kind, partition]
            records.append(Record(partition, len(records), time.time_ns() // 1_000_000, key, value))

    def end(self, kind: Kind, partition: int) -> int:
        """Return the partition's end."""
        return len(self._records[kind, partition])

    def read(self, kind: Kind, partition: int, start: int) -> tuple[list[Record], int]:
        """Return the records from ``start`` on, and the partition's end."""
        with self._lock:
            records = self._records[kind, partition]
            return records[start:], len(records)

    def lose(self, kind: Kind, count: int = 1) -> None:
        """Lose the next ``count`` records that are sent to the topic."""
        self._lost[kind] = count
