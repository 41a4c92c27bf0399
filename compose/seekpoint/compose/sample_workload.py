"""Use a new broker as the programs of a journal do, while its JVM records what it loads and compiles for that.

With ``topic_admin``, this is the only module of this root that imports the Kafka client.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from seekpoint.compose.first_requests import ask_for_coordinators, ask_for_producer_ids
from seekpoint.compose.topic_admin import TopicAdmin
from seekpoint.compose.topic_plan import plan_topics
from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ClusterFailed
from seekpoint.schemas.log.safe_reading import safe_config

_RECORDS = 1_000
"""The JVM compiles a method after 200 calls."""
_TRANSACTIONS = 5
_TIMEOUT_S = 20.0
_PARTITIONS = 2

_logger = logging.getLogger("seekpoint.compose.sample_workload")
_logger.propagate = False  # the broker under it is nobody's


def run_sample(port: int) -> None:
    """Create a journal's topics, append records one by one, read them in two ways, and commit transactions.

    Raises ``SeekpointError`` if the broker does not do all of it.
    """
    settings = Settings(journal="sample", partitions=_PARTITIONS, bootstrap_servers=f"127.0.0.1:{port}")
    ask_for_producer_ids(port)
    TopicAdmin(settings).create(plan_topics(settings, 1, DEFAULT_LIMITS), 1)
    ask_for_coordinators(port)
    topic = settings.topic_name("journal")
    try:
        with _Reader(settings, topic, group=False), _Reader(settings, topic, group=True):
            _append(settings, topic)
            _transact(settings, settings.topic_name("checkpoints"))
    except KafkaException as exc:
        raise ClusterFailed(f"the sample workload failed: {exc}") from exc


def _append(settings: Settings, topic: str) -> None:
    producer = Producer(_config(settings, {"enable.idempotence": True, "acks": "all", "linger.ms": 0}))
    for index in range(_RECORDS):
        producer.produce(topic, b"x" * 300, key=b"sample", partition=index % _PARTITIONS)
        if producer.flush(_TIMEOUT_S):
            raise ClusterFailed("the sample workload was not acknowledged in time")


def _transact(settings: Settings, topic: str) -> None:
    producer = Producer(_config(settings, {"transactional.id": "sample"}))
    producer.init_transactions(_TIMEOUT_S)
    for _ in range(_TRANSACTIONS):
        producer.begin_transaction()
        producer.produce(topic, b"x" * 300, key=b"sample", partition=0)
        producer.commit_transaction(_TIMEOUT_S)


class _Reader:
    """A thread that follows a topic: as a member of a group that commits, or from the start of each partition."""

    def __init__(self, settings: Settings, topic: str, *, group: bool) -> None:
        self._config = _config(
            settings,
            {
                "group.id": "sample" if group else "sample.reader",
                "fetch.wait.max.ms": 50,
            },
        )
        self._topic = topic
        self._group = group
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Reader:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    def _read(self) -> None:
        consumer = Consumer(safe_config(self._config))
        partitions = [TopicPartition(self._topic, index, 0) for index in range(_PARTITIONS)]
        try:
            if self._group:  # nothing is committed yet, and a safe consumer does not guess where to begin
                consumer.subscribe([self._topic], on_assign=lambda member, assigned: member.assign(partitions))
            else:
                consumer.assign(partitions)
            committed = time.monotonic()
            while not self._ends.is_set():
                message = consumer.poll(0.05)
                if self._group and message and not message.error() and time.monotonic() - committed > 0.02:
                    consumer.commit(message=message, asynchronous=True)
                    committed = time.monotonic()
        except KafkaException:
            pass  # its classes are recorded as far as it came
        finally:
            consumer.close()


def _config(settings: Settings, more: dict[str, Any]) -> dict[str, Any]:
    return {"bootstrap.servers": settings.bootstrap_servers, "logger": _logger, "log_level": 0, **more}
