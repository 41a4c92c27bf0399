"""Where requests for a recovery and their answers are exchanged: the topics ``NAME.recover`` and ``NAME.recovered``.

A small port, with the one on Kafka and its twin in memory. Calls block and are safe from any thread.
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

__all__ = ["Exchange", "KafkaExchange", "Kind", "MemoryExchange"]

Kind = Literal["recover", "recovered"]
_END = 1 << 62


class Exchange(Protocol):
    """Two topics with the journal's partitions."""

    @property
    def partitions(self) -> int:
        """How many each has."""

    @property
    def limits(self) -> Limits:
        """What a record may hold."""

    def send(self, kind: Kind, partition: int, key: bytes, value: bytes) -> None:
        """Write, and wait for the acknowledgement. Raises ``JournalUnavailable``, ``JournalMismatch``."""

    def end(self, kind: Kind, partition: int) -> int:
        """The next offset to come. Raises as ``send`` does."""

    def read(self, kind: Kind, partition: int, start: int) -> tuple[list[Record], int]:
        """The records from ``start`` on as of now, and where they end. What is gone below is passed over."""


class KafkaExchange:
    """The exchange on Kafka, through a reader of the journal. Needs no right to read the journal's entries."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader

    @property
    def partitions(self) -> int:
        """As many as the journal has."""
        return self._reader.partitions

    @property
    def limits(self) -> Limits:
        """The journal's."""
        return self._reader.limits

    def send(self, kind: Kind, partition: int, key: bytes, value: bytes) -> None:
        """Write, and wait for the acknowledgement."""
        self._reader.produce(self._topic(kind), partition, key, value)

    def end(self, kind: Kind, partition: int) -> int:
        """The next offset to come."""
        return self._reader.read_newer(self._topic(kind), partition, _END)[1]

    def read(self, kind: Kind, partition: int, start: int) -> tuple[list[Record], int]:
        """The records from ``start`` on as of now, and where they end."""
        return self._reader.read_newer(self._topic(kind), partition, start)

    def _topic(self, kind: Kind) -> str:
        return self._reader.settings.topic_name(kind)


class MemoryExchange:
    """The exchange in memory, complete. ``lose(kind, n)``: the next ``n`` records sent there are lost silently."""

    def __init__(self, partitions: int = 8, limits: Limits = DEFAULT_LIMITS) -> None:
        self.partitions = partitions
        self.limits = limits
        self._records: dict[tuple[Kind, int], list[Record]] = defaultdict(list)
        self._lost: dict[Kind, int] = {"recover": 0, "recovered": 0}
        self._lock = threading.Lock()

    def send(self, kind: Kind, partition: int, key: bytes, value: bytes) -> None:
        """Write."""
        with self._lock:
            if self._lost[kind] > 0:
                self._lost[kind] -= 1
                return
            records = self._records[kind, partition]
            records.append(Record(partition, len(records), time.time_ns() // 1_000_000, key, value))

    def end(self, kind: Kind, partition: int) -> int:
        """The next offset to come."""
        return len(self._records[kind, partition])

    def read(self, kind: Kind, partition: int, start: int) -> tuple[list[Record], int]:
        """The records from ``start`` on as of now, and where they end."""
        with self._lock:
            records = self._records[kind, partition]
            return records[start:], len(records)

    def lose(self, kind: Kind, count: int = 1) -> None:
        """Make the next ``count`` records vanish on their way."""
        self._lost[kind] = count
