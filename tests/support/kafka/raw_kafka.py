"""Kafka behind Seekpoint's back: raw producers, transactions, deleted records and topics. For tests only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from seekpoint.schemas.config.settings import Settings

__all__ = ["RawKafka"]

RawRecord = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp in milliseconds."""


class RawKafka:
    """The topics of one journal, without any of our rules."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topic = settings.topic_name("journal")
        self._where: dict[str, str | int | float | bool] = {
            "bootstrap.servers": settings.bootstrap_servers,
            "log_level": 0,
        }
        self._producer = Producer({**self._where, "acks": "all", "linger.ms": 5, "message.max.bytes": 16_000_000})
        self._admin = AdminClient(self._where)

    def write(self, partition: int, records: Iterable[RawRecord], topic: str | None = None) -> list[int]:
        """Append; the offsets."""
        return self._produce(self._producer, partition, records, topic)

    def append(self, partition: int, key: bytes | None, value: bytes | None) -> int:
        """Append one record; its offset."""
        return self.write(partition, [(key, value, 1_000)])[0]

    def transaction(self, name: str = "t") -> Producer:
        """A producer with a transaction begun."""
        producer = Producer({**self._where, "transactional.id": f"{self.topic}.{name}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        return producer

    def write_in(
        self, producer: Producer, partition: int, records: Iterable[RawRecord], topic: str | None = None
    ) -> list[int]:
        """Append within the transaction of ``producer``."""
        return self._produce(producer, partition, records, topic)

    def trim(self, partition: int, offset: int) -> None:
        """Delete the records below ``offset``."""
        [future] = self._admin.delete_records([TopicPartition(self.topic, partition, offset)]).values()
        future.result(60)

    def recreate(self, topics: Sequence[str] = ("journal",), partitions: int | None = None) -> None:
        """Delete topics and make them anew, empty."""
        names = [self.settings.topic_name(topic) for topic in topics]
        for future in self._admin.delete_topics(names, operation_timeout=60).values():
            future.result(60)
        wanted = partitions or self.settings.partitions
        for name in names:
            self._create(NewTopic(name, num_partitions=wanted, replication_factor=1))
            self._wait_for_leaders(name, wanted)

    def grow(self, partitions: int) -> None:
        """Add partitions to the journal's topic."""
        [future] = self._admin.create_partitions([NewPartitions(self.topic, partitions)]).values()
        future.result(60)

    def topic_id(self) -> str:
        """The id the journal's topic has now."""
        [future] = self._admin.describe_topics(TopicCollection([self.topic])).values()
        return str(future.result(60).topic_id)

    def _create(self, topic: NewTopic) -> None:
        """Deleting takes a moment: the name may still be taken."""
        for attempt in range(100):
            [future] = self._admin.create_topics([topic], operation_timeout=60).values()
            try:
                future.result(60)
                return
            except Exception:
                if attempt == 99:
                    raise

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """A topic is there before its leaders know that they lead."""
        ends = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)}  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + 60
        while True:
            try:
                for future in self._admin.list_offsets(ends).values():
                    future.result(60)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _produce(
        self, producer: Producer, partition: int, records: Iterable[RawRecord], topic: str | None
    ) -> list[int]:
        offsets: list[int] = []

        def delivered(error: object, message: object) -> None:
            assert error is None, error
            offsets.append(message.offset())  # type: ignore[attr-defined]

        for key, value, stamp in records:
            producer.produce(topic or self.topic, value, key, partition, timestamp=stamp, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(20) == 0
        return offsets
