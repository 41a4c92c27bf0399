"""Checkpoints on a real Kafka: the compacted topic ``NAME.checkpoints``, read through a reader's warm consumers."""

from __future__ import annotations

from collections.abc import Iterator

from seekpoint.consumers.kafka.topic_reader import TopicReader
from seekpoint.schemas.errors import LogTruncated

__all__ = ["KafkaCheckpoints"]


class KafkaCheckpoints:
    """A ``CheckpointReader``. Read committed, thread safe, blocking; connects when first used.

    Raises ``JournalUnavailable``, also where a transaction stays open for longer than ``start_timeout_s``, and
    ``JournalMismatch`` if the topic is not the manifest's.
    """

    def __init__(self, reader: TopicReader) -> None:
        self._reader = reader
        self._topic = reader.settings.topic_name("checkpoints")

    def end(self, partition: int) -> int:
        """The next position, open transactions included."""
        self._reader.connect()
        return self._reader.uncommitted_end(self._topic, partition)

    def stable_end(self, partition: int) -> int:
        """The last stable offset: everything below it is decided."""
        self._reader.connect()
        return self._reader.marks_of(self._topic, partition).high

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """The committed records in [start, stop), in order."""
        if start >= stop:
            return
        self._reader.connect()
        for batch in self._reader.read_topic(self._topic, partition, start, stop):
            for record in batch.records:
                if record.key is not None:  # what has no key stands for nothing
                    yield record.offset, record.key, record.value

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """The value at exactly ``position`` if it is there under ``key``; one fetch."""
        self._reader.connect()
        try:
            found = self._reader.first_at(self._topic, partition, position)
        except LogTruncated:  # a pointer into a topic that is no more
            return None
        return found.value if found is not None and (found.offset, found.key) == (position, key) else None
