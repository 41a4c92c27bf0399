"""Compacted topics on a real Kafka as tables: the newest value of each key, read once and then updated."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping

from seekpoint.consumers.kafka.topic_reader import TopicReader
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.partition import partition_of


class KafkaTable:
    """A compacted topic: the newest value of each key. Thread safe; blocks."""

    def __init__(self, reader: TopicReader, name: str) -> None:
        self._reader = reader
        self._name = name
        self._topic = reader.settings.topic_name(name)
        self._lock = threading.Lock()
        self._newest: dict[bytes, bytes] = {}
        self._next: dict[int, int] = {}
        self._partitions: int | None = None

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value and wait for the acknowledgement. None deletes the key."""
        self._reader.produce(self._topic, partition_of(key, self._partition_count()), key, value)

    def items(self) -> Mapping[bytes, bytes]:
        """Return the newest value of each key, read to the present end. The first call reads the whole topic."""
        with self._lock:
            for partition in range(self._partition_count()):
                self._catch_up(partition)
            return dict(self._newest)

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key with its newest value. Reads the whole topic twice, and keeps no value in memory."""
        for partition in range(self._partition_count()):
            low, high = self._reader.marks_of(self._topic, partition)
            newest: dict[bytes, int] = {}
            for record in self._records(partition, low, high):
                if record.key is not None:
                    newest[record.key] = record.offset
            for record in self._records(partition, low, high):
                if record.key is not None and record.value is not None and newest.get(record.key) == record.offset:
                    yield record.key, record.value

    def _records(self, partition: int, low: int, high: int) -> Iterator[Record]:
        if low < high:
            for batch in self._reader.read_topic(self._topic, partition, low, high):
                yield from batch.records

    def _partition_count(self) -> int:
        if self._partitions is None:
            manifest = self._reader.connect()
            self._partitions = manifest.partitions if self._name == "checkpoints" else 1
        return self._partitions

    def _catch_up(self, partition: int) -> None:
        start = self._next.get(partition, 0)
        records, end = self._reader.read_newer(self._topic, partition, start)
        if end < start:  # the topic was emptied or re-created: its former values are gone
            self._newest.clear()
            self._next.clear()
            records, end = self._reader.read_newer(self._topic, partition, 0)
        update(self._newest, records)
        self._next[partition] = end


def newest_of(records: Iterable[Record]) -> dict[bytes, bytes]:
    """Return the newest value of each key among ``records``."""
    newest: dict[bytes, bytes] = {}
    update(newest, records)
    return newest


def update(newest: dict[bytes, bytes], records: Iterable[Record]) -> None:
    """Apply ``records`` to ``newest``, in place: no value removes the key; a record without a key is ignored."""
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            newest.pop(record.key, None)
        else:
            newest[record.key] = record.value
