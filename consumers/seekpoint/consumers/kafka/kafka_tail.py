"""The tail of a journal on Kafka: one consumer, assigned by hand, that follows the partitions a node works in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from seekpoint.consumers.kafka.kafka_client import Consumer, KafkaException, Message, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, passes
from seekpoint.consumers.kafka.kafka_settings import LOGGED, tail_config
from seekpoint.consumers.kafka.messages import ascend, landmark_of, offset_of, record_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.safe_reading import safe
from seekpoint.schemas.log.tail import TailBatch

__all__ = ["KafkaTail"]

_BATCH_RECORDS = 1_000
"""So many are looked at in one go by an event loop that others wait for."""


class KafkaTail:
    """A ``Tail``. Its consumer is made by the first ``begin``: one made before waits a second for its first job."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.topic_name("journal")
        self._consumer: Consumer | None = None
        self._positions: dict[int, int] = {}

    def begin(self, partition: int, position: int) -> None:
        """Follow it from there."""
        try:
            if self._consumer is None:
                self._consumer = Consumer(safe({**tail_config(self._settings), **LOGGED}))
            self.end(partition)
            self._consumer.incremental_assign([TopicPartition(self._topic, partition, position)])
        except KafkaException:
            position = -1  # the next poll says that it is broken
        self._positions[partition] = position

    def end(self, partition: int) -> None:
        """Follow it no more."""
        if self._positions.pop(partition, -1) >= 0 and self._consumer is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def poll(self, timeout_s: float) -> list[TailBatch]:
        """What has come; an error of a partition that the client does not get over by itself breaks it."""
        broken = [self._break(partition) for partition, position in list(self._positions.items()) if position < 0]
        if broken or self._consumer is None:
            time.sleep(0 if broken else timeout_s)
            return broken
        try:
            first = self._consumer.poll(timeout_s)
            messages = [] if first is None else [first, *self._consumer.consume(_BATCH_RECORDS, 0)]
        except KafkaException:
            return [self._break(partition) for partition in list(self._positions)]
        return self._stretches(messages)

    def _stretches(self, messages: Sequence[Message]) -> list[TailBatch]:
        found: dict[int, list[Message]] = {}
        stretches = []
        for message in messages:
            error = message.error()
            if error is None or error.name() == END_OF_PARTITION:
                found.setdefault(message.partition() or 0, []).append(message)
            elif not passes(error.name()):
                at = message.partition()
                concerned = list(self._positions) if at is None or at < 0 else [at]
                stretches += [self._break(partition) for partition in concerned if partition in self._positions]
        for partition, those in found.items():
            if partition in self._positions:
                stretches += self._stretch(partition, those)
        return stretches

    def _stretch(self, partition: int, messages: list[Message]) -> list[TailBatch]:
        """One stretch of them, if they lead on. An end of the partition may lie behind holes, but tells no more."""
        position = self._positions[partition]
        end = offset_of(messages[-1]) + (messages[-1].error() is None)
        if end <= position:
            return []
        records = [each for each in messages if each.error() is None and offset_of(each) >= position]
        if not ascend(records):
            return [self._break(partition)]
        self._positions[partition] = end
        first, last = (landmark_of(records[0]), landmark_of(records[-1])) if records else (None, None)
        made = partial(_record, partition, records)
        return [TailBatch(partition, [each.key() for each in records], made, end, first, last)]

    def _break(self, partition: int) -> TailBatch:
        position = self._positions[partition]
        self.end(partition)
        self._positions.pop(partition, None)
        return TailBatch(partition, (), partial(_record, partition, ()), max(position, 0), broken=True)

    def close(self) -> None:
        """Give up the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self._positions.clear()


def _record(partition: int, messages: Sequence[Message], index: int) -> Record:
    return record_of(partition, messages[index])
