"""Find the writer schemas that a journal's entries name, without its manifest, which may be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seekpoint.schemas.wire.encoding import HEADER, MAGIC

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader


def used_fingerprints(
    reader: KafkaReader, partitions: int, advance: Callable[[int], None] = lambda records: None
) -> set[bytes]:
    """Return the fingerprints in the journal's records. Reads the whole topic; blocks.

    ``advance`` receives the number of records of each batch.
    """
    topic, found = reader.settings.topic_name("journal"), set[bytes]()
    for partition in range(partitions):
        low, high = reader.marks_of(topic, partition)
        for batch in reader.read_topic(topic, partition, low, high):
            values = [record.value for record in batch.records]
            found.update(value[len(MAGIC) : len(HEADER)] for value in values if value and value.startswith(MAGIC))
            advance(batch.scanned)
    return found
