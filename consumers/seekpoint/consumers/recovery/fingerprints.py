"""Which writer schemas the entries of a journal name: read without its manifest, which may be what is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seekpoint.schemas.wire.encoding import HEADER, MAGIC

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

__all__ = ["used_fingerprints"]


def used_fingerprints(
    reader: KafkaReader, partitions: int, advance: Callable[[int], None] = lambda records: None
) -> set[bytes]:
    """The fingerprints in the journal's records, one read of the whole topic. What is no entry names none. Blocks."""
    topic, found = reader.settings.topic_name("journal"), set[bytes]()
    for partition in range(partitions):
        low, high = reader.marks_of(topic, partition)
        for batch in reader.read_topic(topic, partition, low, high):
            values = [record.value for record in batch.records]
            found.update(value[len(MAGIC) : len(HEADER)] for value in values if value and value.startswith(MAGIC))
            advance(batch.scanned)
    return found
