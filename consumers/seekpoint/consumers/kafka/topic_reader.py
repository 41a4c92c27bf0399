"""The port through which tables and checkpoints read a topic: the part of ``KafkaReader`` that they use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import Batch, Record, Watermarks
from seekpoint.schemas.log.manifest import Manifest


class TopicReader(Protocol):
    """Reads and writes one topic at a time through pooled clients. Blocking, thread safe."""

    settings: Settings

    def connect(self) -> Manifest:
        """Return the journal's manifest. The first call compares it with the topics."""

    def marks_of(self, topic: str, partition: int) -> Watermarks:
        """Return the partition's first offset and its stable end."""

    def uncommitted_end(self, topic: str, partition: int) -> int:
        """Return the partition's end, open transactions included."""

    def read_topic(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Batch]:
        """Yield batches of the committed records in [start, stop)."""

    def read_newer(self, topic: str, partition: int, start: int) -> tuple[list[Record], int]:
        """Return the committed records from ``start`` on, and the partition's end."""

    def first_at(self, topic: str, partition: int, position: int) -> Record | None:
        """Return the first committed record at or after ``position``; None if there is none."""

    def produce(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record and wait for its acknowledgement."""
