"""The reader of a replay on Kafka: one consumer with assigned partitions that joins no group and commits nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from seekpoint.consumers.kafka.kafka_client import Consumer, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, OUT_OF_RANGE, passes
from seekpoint.consumers.kafka.kafka_settings import LOGGED
from seekpoint.consumers.kafka.messages import disorder_error
from seekpoint.consumers.staging.kafka_replay_errors import TopicErrors
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.log.safe_reading import safe_config

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_CONFIG: Mapping[str, Any] = {
    # Bounds of the client's queue, and so of the memory of a replay.
    "queued.max.messages.kbytes": 8_192,
    "queued.min.messages": 10_000,
    "fetch.max.bytes": 4_194_304,
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
}


class KafkaRangeReader:
    """A ``RangeReader`` with one consumer."""

    def __init__(self, topic: str, settings: Settings, errors: TopicErrors, ranges: Sequence[OffsetRange]) -> None:
        self._topic = topic
        self._errors = errors
        self._stops = {each.partition: each.stop for each in ranges}
        self._open = set(self._stops)
        with errors.translating_errors():
            group = {"group.id": "seekpoint-replay"}  # never joined, but the client requires a name
            self._consumer = Consumer(safe_config({**_CONFIG, **settings.consumer_config(), **group, **LOGGED}))
            self._consumer.assign([TopicPartition(topic, each.partition, each.start) for each in ranges])

    def take(self, records_max: int, timeout_s: float) -> list[Any]:
        """Return the records that arrived. Raises ``JournalGap`` if the source was trimmed meanwhile."""
        if not self._open:
            return []
        with self._errors.translating_errors():
            messages: list[Any] = self._consumer.consume(records_max, timeout_s)
        good = [message for message in messages if message.error() is None]
        if len(good) < len(messages):
            self._handle_events([message for message in messages if message.error() is not None])
        newest = self._newest(good)
        ended = [partition for partition, offset in newest.items() if offset >= self._stops[partition] - 1]
        if ended:
            stops = self._stops
            good = [message for message in good if message.offset() < stops[message.partition()]]
            self._end(ended)
        return good

    def _newest(self, messages: Sequence[Any]) -> dict[int, int]:
        """Return the last offset of each partition. Raises ``LogDamaged`` where offsets do not rise."""
        newest: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if newest.get(partition, -1) >= offset:
                raise disorder_error(self._topic, partition, [message])
            newest[partition] = offset
        return newest

    def unfinished(self) -> frozenset[int]:
        """Return the partitions whose range was not read to its end."""
        return frozenset(self._open)

    def pause(self, partition: int) -> None:
        """Pause a partition."""
        if partition in self._open:
            self._consumer.pause([TopicPartition(self._topic, partition)])

    def resume(self, partition: int) -> None:
        """Resume a partition."""
        if partition in self._open:
            self._consumer.resume([TopicPartition(self._topic, partition)])

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _handle_events(self, events: Sequence[Any]) -> None:
        for event in events:
            error, partition = event.error(), event.partition()
            name = error.name()
            if name == END_OF_PARTITION:
                if event.offset() >= self._stops.get(partition, 0):
                    self._end([partition])
            elif name in OUT_OF_RANGE:
                raise JournalGap(
                    "the source was trimmed while it was read: some of the records are gone",
                    topic=self._topic,
                    partition=partition,
                    hint="run the same replay from the remaining offsets",
                )
            elif not passes(name):
                raise self._errors.translate(error, partition=partition, offset=event.offset())
            else:
                _logger.debug("%s[%s]: %s", self._topic, partition, name)

    def _end(self, partitions: Sequence[int]) -> None:
        """Stop reading these partitions."""
        ended = [partition for partition in partitions if partition in self._open]
        self._open.difference_update(ended)
        if ended:
            self._consumer.incremental_unassign([TopicPartition(self._topic, one) for one in ended])
