"""Where a new consumer group begins to read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from seekpoint.consumers.kafka.kafka_client import Consumer, KafkaException, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import translated
from seekpoint.consumers.kafka.kafka_settings import LOGGED
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.safe_reading import safe_config

_ANSWER_S = 30.0


def begin_group_at(settings: Settings, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit ``offsets`` (by partition) for the partitions of which ``group`` has no offset. Blocks.

    A member that has joined meanwhile keeps its own offsets: Kafka refuses commits from outside then.
    """
    wanted = [TopicPartition(topic, partition) for partition in offsets]
    with _translating_errors(settings):
        mine = {"group.id": group, "enable.auto.commit": False}
        consumer = Consumer(safe_config({**settings.consumer_config(), **mine, **LOGGED}))
    try:
        with _translating_errors(settings):
            known = consumer.committed(wanted, timeout=_ANSWER_S)
        new = [TopicPartition(topic, one.partition, offsets[one.partition]) for one in known if one.offset < 0]
        if new:
            with contextlib.suppress(KafkaException):
                consumer.commit(offsets=new, asynchronous=False)
    finally:
        consumer.close()


@contextlib.contextmanager
def _translating_errors(settings: Settings) -> Iterator[None]:
    try:
        yield
    except KafkaException as exc:
        raise translated(exc.args[0].name(), exc.args[0].str(), settings) from exc
