"""The ``CheckpointReader`` of a real Kafka: the compacted topic ``NAME.checkpoints``."""

from __future__ import annotations

from collections.abc import Iterator

from seekpoint.consumers.kafka.topic_reader import TopicReader
from seekpoint.schemas.errors import LogTruncated


class KafkaCheckpoints:
    """A ``CheckpointReader`` on a reader's consumers. Reads committed records; thread safe, blocking.

    Connects when first used. Raises ``JournalUnavailable``, also if a transaction stays open for longer than
    ``start_timeout_s``, and ``JournalMismatch`` if the topic is not the manifest's.
    """

    def __init__(self, reader: TopicReader) -> None:
        self._reader = reader
        self._topic = reader.settings.topic_name("checkpoints")

    def end(self, partition: int) -> int:
        """Return the next position, open transactions included."""
        self._reader.connect()
        return self._reader.uncommitted_end(self._topic, partition)

    def stable_end(self, partition: int) -> int:
        """Return the last stable offset: below it every transaction is committed or aborted."""
        self._reader.connect()
        return self._reader.marks_of(self._topic, partition).high

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Yield the committed records in [start, stop), in order."""
        if start >= stop:
            return
        self._reader.connect()
        for batch in self._reader.read_topic(self._topic, partition, start, stop):
            for record in batch.records:
                if record.key is not None:  # a record without a key is no checkpoint
                    yield record.offset, record.key, record.value

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """Return the value at exactly ``position`` if its key is ``key``, else None; one fetch."""
        self._reader.connect()
        try:
            found = self._reader.first_at(self._topic, partition, position)
        except LogTruncated:  # the pointer is of a topic that was re-created
            return None
        return found.value if found is not None and (found.offset, found.key) == (position, key) else None
