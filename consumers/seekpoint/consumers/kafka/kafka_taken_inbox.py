"""The inbox on Kafka, as far as the groups of workers have committed it."""

from __future__ import annotations

from collections.abc import Iterator

from seekpoint.consumers.kafka.kafka_client import ConsumerGroupTopicPartitions
from seekpoint.consumers.kafka.kafka_pool import KafkaPool
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.log_reading.group_members import role_and_topic
from seekpoint.schemas.log.log_ports import Record


class KafkaTakenInbox:
    """A ``TakenInbox``. Raises ``JournalUnavailable``."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._settings = reader.settings
        self._topic = reader.settings.topic_name("inbox")

    def ends(self) -> dict[int, int]:
        """Return the greatest committed offset of each partition: one request for each group of workers."""
        pool: KafkaPool = self._reader._pool
        admin, timeout_s = pool.admin(), self._settings.start_timeout_s
        ends: dict[int, int] = {}
        with pool.translating_errors():
            listed = admin.list_consumer_groups(request_timeout=timeout_s).result(timeout_s + 1)
            for one in listed.valid:
                if (role_and_topic(self._settings.journal, one.group_id) or ("", ""))[0] != "worker":
                    continue
                wanted = [ConsumerGroupTopicPartitions(one.group_id)]
                [asked] = admin.list_consumer_group_offsets(wanted, request_timeout=timeout_s).values()
                for place in asked.result(timeout_s + 1).topic_partitions or ():
                    if place.topic == self._topic and place.offset > 0:
                        ends[place.partition] = max(place.offset, ends.get(place.partition, 0))
        return ends

    def read(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        """Yield the records in [start, stop) that are still there."""
        low, high = self._reader.marks_of(self._topic, partition)
        for batch in self._reader.read_topic(self._topic, partition, max(start, low), min(stop, high)):
            yield from batch.records
