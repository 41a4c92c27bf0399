"""The ``Tail`` of a journal on Kafka: one consumer that follows the partitions in which a node works."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from seekpoint.consumers.kafka.kafka_client import Consumer, KafkaException, Message, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, passes
from seekpoint.consumers.kafka.kafka_settings import LOGGED, tail_config
from seekpoint.consumers.kafka.messages import are_ascending, landmark_of, offset_of, record_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.safe_reading import safe_config
from seekpoint.schemas.log.tail import TailBatch

_BATCH_RECORDS = 1_000
"""One poll returns at most so many, because the event loop that handles them has other work."""


class KafkaTail:
    """A ``Tail``. The first ``begin`` makes its consumer: one made earlier waits a second for its first assignment."""

    def __init__(self, settings: Settings, *, is_steady: bool = False) -> None:
        self._settings = settings
        self._is_steady = is_steady
        self._topic = settings.topic_name("journal")
        self._consumer: Consumer | None = None
        self._positions: dict[int, int] = {}

    def begin(self, partition: int, position: int) -> None:
        """Follow the partition from ``position`` on."""
        try:
            if self._consumer is None:
                self._consumer = Consumer(
                    safe_config({**tail_config(self._settings, is_steady=self._is_steady), **LOGGED})
                )
            self.end(partition)
            self._consumer.incremental_assign([TopicPartition(self._topic, partition, position)])
        except KafkaException:
            position = -1  # the next poll reports it as broken
        self._positions[partition] = position

    def end(self, partition: int) -> None:
        """Stop following the partition."""
        if self._positions.pop(partition, -1) >= 0 and self._consumer is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def poll(self, timeout_s: float) -> list[TailBatch]:
        """Return the records that have arrived. A partition whose error the client does not recover from is broken."""
        broken = [self._break(partition) for partition, position in list(self._positions.items()) if position < 0]
        if broken or self._consumer is None:
            time.sleep(0 if broken else timeout_s)
            return broken
        try:
            first = self._consumer.poll(timeout_s)
            messages = [] if first is None else [first, *self._consumer.consume(_BATCH_RECORDS, 0)]
        except KafkaException:
            return [self._break(partition) for partition in list(self._positions)]
        return self._batches(messages)

    def _batches(self, messages: Sequence[Message]) -> list[TailBatch]:
        found: dict[int, list[Message]] = {}
        batches = []
        for message in messages:
            error = message.error()
            if error is None or error.name() == END_OF_PARTITION:
                found.setdefault(message.partition() or 0, []).append(message)
            elif not passes(error.name()):
                at = message.partition()
                concerned = list(self._positions) if at is None or at < 0 else [at]
                batches += [self._break(partition) for partition in concerned if partition in self._positions]
        for partition, arrived in found.items():
            if partition in self._positions:
                batches += self._batch(partition, arrived)
        return batches

    def _batch(self, partition: int, messages: list[Message]) -> list[TailBatch]:
        """Return the batch of ``messages`` if they advance the position. The partition may end with holes."""
        position = self._positions[partition]
        end = offset_of(messages[-1]) + (messages[-1].error() is None)
        if end <= position:
            return []
        records = [each for each in messages if each.error() is None and offset_of(each) >= position]
        if not are_ascending(records):
            return [self._break(partition)]
        self._positions[partition] = end
        first, last = (landmark_of(records[0]), landmark_of(records[-1])) if records else (None, None)
        record_at = partial(_record, partition, records)
        return [TailBatch(partition, [each.key() for each in records], record_at, end, first, last)]

    def _break(self, partition: int) -> TailBatch:
        position = self._positions[partition]
        self.end(partition)
        self._positions.pop(partition, None)
        return TailBatch(partition, (), partial(_record, partition, ()), max(position, 0), broken=True)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self._positions.clear()


def _record(partition: int, messages: Sequence[Message], index: int) -> Record:
    return record_of(partition, messages[index])
