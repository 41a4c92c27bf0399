"""Access to Kafka. It translates the client's errors.

With ``sample_workload``, this is the only module of this root that imports the client.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from seekpoint.compose.topic_audit import TopicFacts
from seekpoint.compose.topic_plan import TopicPlan
from seekpoint.schemas.config.extras import kafka_missing
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidName, InvalidSetting, JournalUnavailable, LogDamaged, SeekpointError
from seekpoint.schemas.log.safe_reading import DAMAGED_RECORD_ERRORS, safe_config

try:
    from confluent_kafka import (
        Consumer,
        IsolationLevel,
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType, TopicDescription
except ModuleNotFoundError as exc:
    raise kafka_missing(exc.name) from exc

_logger = logging.getLogger("seekpoint.compose.topic_admin")
_Answer = TypeVar("_Answer")
_POLL_INTERVAL_S = 0.05
_REACH_S = 2.0
_LEADER_S = 2.0
"""How long the client waits for a partition's leader, before it is looked whether the topic still exists."""
_NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
_NO_LEADER = _NOT_YET | {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._TIMED_OUT}
_INPUT = {
    KafkaError._INVALID_ARG,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
}


_Config = Mapping[str, str | int | float | bool]


def _config(*parts: _Config) -> dict[str, Any]:
    """Merge settings, later ones first in priority, and send the client's messages to Python's logging."""
    merged: dict[str, Any] = {"logger": _logger, "log_level": 2}  # failures are raised as errors anyway
    for part in parts:
        merged.update(part)
    return merged


def live_brokers(address: str, timeout_s: float = 1.0) -> frozenset[int]:
    """Return the ids of the live brokers that the broker at ``address`` knows; empty if it does not answer."""
    try:
        client = AdminClient(_config({"bootstrap.servers": address}))
        return frozenset(client.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return frozenset()


@contextlib.contextmanager
def _translated(settings: Settings, doing: str) -> Iterator[None]:
    """Translate the client's errors into Seekpoint's, without secrets."""
    try:
        yield
    except KafkaException as exc:
        raise _translate(settings, doing, exc.args[0]) from exc


def _translate(settings: Settings, doing: str, error: Any) -> SeekpointError:
    text = settings.scrub(error.str() if isinstance(error, KafkaError) else str(error))
    if isinstance(error, KafkaError) and error.code() == KafkaError.TOPIC_EXCEPTION:
        hint = "choose another journal name; Kafka takes . and _ in names of topics for the same"
        return InvalidName(f"Kafka refuses {doing}: {text}", journal=settings.journal, hint=hint)
    if isinstance(error, KafkaError) and error.code() in _INPUT:
        return InvalidSetting(f"Kafka refuses {doing}: {text}", bootstrap_servers=settings.bootstrap_servers)
    if isinstance(error, KafkaError) and error.name() in DAMAGED_RECORD_ERRORS:
        return LogDamaged(f"{doing}: records arrive damaged ({text})")
    return JournalUnavailable(f"{doing} failed: {text}", bootstrap_servers=settings.bootstrap_servers)


class TopicAdmin:
    """The topics in Kafka. Each call blocks for at most ``start_timeout_s``. Raises ``JournalUnavailable``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.start_timeout_s
        with _translated(settings, "the settings of an admin client"):
            self._client = AdminClient(_config(settings.admin_config()))

    def journals(self) -> list[str]:
        """Return the names of the journals whose topics the credentials may see."""
        with _translated(self._settings, "asking for the topics"):
            names = self._client.list_topics(timeout=self._timeout_s).topics
        return [name.removesuffix(".journal") for name in names if name.endswith(".journal")]

    def brokers(self) -> int:
        """Return the number of live brokers. Raises ``JournalUnavailable`` if they advertise closed addresses only."""
        with _translated(self._settings, "asking for the brokers"):
            brokers = self._client.list_topics(timeout=self._timeout_s).brokers.values()
        refusals = [refusal for one in brokers if (refusal := _refusal(one.host or "", one.port)) is not None]
        if refusals and len(refusals) == len(brokers):
            raise _AdvertisedError(
                f"Kafka at {self._settings.scrub(self._settings.bootstrap_servers)} answers, and names brokers that do"
                f" not answer: {', '.join(refusals)}",
                hint="see advertised.listeners of the brokers: clients must reach these addresses",
            )
        return len(brokers)

    def topics(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Return the facts of the topics that exist."""
        wanted = list(names)
        try:
            with _translated(self._settings, "describing the topics"):
                described = self._client.describe_topics(TopicCollection(wanted), request_timeout=self._timeout_s)
                found = {name: topic for name, future in described.items() if (topic := _existing(future)) is not None}
                configs = self._configs(list(found))
        except JournalUnavailable as exc:
            try:  # a new client, which still has its way to the address that answers
                TopicAdmin(self._settings).brokers()
            except _AdvertisedError:
                raise
            except SeekpointError:
                raise exc from None
            raise
        return {name: _facts(topic, configs[name]) for name, topic in found.items() if name in configs}

    def allowed(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the allowed operations on each existing topic: ``READ``, ``WRITE``, ``DELETE``, ..."""
        wanted = TopicCollection(list(names))
        with _translated(self._settings, "asking what is allowed"):
            described = self._client.describe_topics(
                wanted, include_authorized_operations=True, request_timeout=self._timeout_s
            )
            found = {name: topic for name, future in described.items() if (topic := _existing(future)) is not None}
        return {
            name: frozenset(operation.name for operation in topic.authorized_operations or ())
            for name, topic in found.items()
        }

    def create(self, plans: Sequence[TopicPlan], replication: int) -> dict[str, TopicFacts]:
        """Create topics, all or none, and wait until they are usable. Existing topics are not changed."""
        if not plans:
            return {}
        new = [
            NewTopic(plan.name, num_partitions=plan.partitions, replication_factor=replication, config=plan.config)
            for plan in plans
        ]
        with _translated(self._settings, "creating the topics"):
            for validate_only in (True, False):
                made = self._client.create_topics(new, request_timeout=self._timeout_s, validate_only=validate_only)
                for future in made.values():
                    _created(future)
        return self._wait_for([plan.name for plan in plans])

    def is_empty(self, topic: TopicFacts) -> bool:
        """Whether nothing was ever appended to the topic."""
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client ships it without types
        latest = {TopicPartition(topic.name, index): newest for index in range(topic.partitions)}

        def ask() -> bool:
            ends = self._client.list_offsets(
                latest, request_timeout=self._timeout_s, isolation_level=IsolationLevel.READ_UNCOMMITTED
            )
            return all(future.result().offset <= 0 for future in ends.values())

        with _translated(self._settings, f"asking for the end of {topic.name}"):
            return _with_retries(ask, time.monotonic() + self._timeout_s)

    def _wait_for(self, names: Sequence[str]) -> dict[str, TopicFacts]:
        deadline = time.monotonic() + self._timeout_s
        while len(facts := self.topics(names)) < len(names):
            if time.monotonic() > deadline:
                raise JournalUnavailable(
                    "created topics do not become visible", topics=sorted(set(names) - facts.keys())
                )
            time.sleep(_POLL_INTERVAL_S)
        return facts

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=self._timeout_s)
        found = {resource.name: _existing(future) for resource, future in futures.items()}
        return {
            name: {entry.name: entry.value for entry in config.values() if entry.value is not None}
            for name, config in found.items()
            if config is not None
        }


def _with_retries(ask: Callable[[], _Answer], deadline: float, may_come: Callable[[], bool] = lambda: True) -> _Answer:
    """Repeat a request until the brokers know the leaders of a new topic, and return the answer.

    ``may_come`` tells whether to go on: a topic that was deleted meanwhile has no leader either.
    """
    while True:
        try:
            return ask()
        except KafkaException as exc:
            if exc.args[0].code() not in _NO_LEADER or time.monotonic() > deadline or not may_come():
                raise
        time.sleep(_POLL_INTERVAL_S)


class _AdvertisedError(JournalUnavailable):
    """The brokers advertise addresses that do not answer."""


def _refusal(host: str, port: int) -> str | None:
    """Return the address if nothing accepts connections there."""
    try:
        socket.create_connection((host, port), _REACH_S).close()
    except (OSError, UnicodeError, OverflowError):
        return f"{host}:{port}"
    return None


def _existing(future: Future[Any]) -> Any:
    """Return the answer, or None if the topic does not exist (yet, on this broker)."""
    try:
        return future.result()
    except KafkaException as exc:
        if exc.args[0].code() in _NOT_YET:
            return None
        raise


def _created(future: Future[Any]) -> None:
    try:
        future.result()
    except KafkaException as exc:
        if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _facts(topic: TopicDescription, config: Mapping[str, str]) -> TopicFacts:
    return TopicFacts(
        name=topic.name,
        topic_id=str(topic.topic_id),
        partitions=len(topic.partitions),
        replication=min(len(partition.replicas) for partition in topic.partitions),
        config=config,
        in_sync=min(len(partition.isr) for partition in topic.partitions),
    )


def read_newest(settings: Settings, topic: str, exists: Callable[[], bool] = lambda: True) -> dict[bytes, bytes]:
    """Read a topic with one partition to its current end. Return the newest value of each key.

    ``exists`` tells whether the topic still exists. Raises ``JournalUnavailable`` at once if it does not.
    """
    with _translated(settings, f"reading {topic}"):
        # The same group id as other readers. It is never joined, but Kafka checks the permission to describe it.
        group = {"group.id": f"{settings.journal}.reader"}
        consumer = Consumer(safe_config(_config(settings.consumer_config(), _READER, group)))
        try:
            return _read_to_end(consumer, topic, time.monotonic() + settings.start_timeout_s, exists)
        finally:
            consumer.close()


_READER: _Config = {
    "fetch.wait.max.ms": 10,  # how long Kafka delays the answer at the end of the topic
}


def _read_to_end(consumer: Consumer, topic: str, deadline: float, exists: Callable[[], bool]) -> dict[bytes, bytes]:
    partition = TopicPartition(topic, 0)
    low, _ = _with_retries(lambda: consumer.get_watermark_offsets(partition, timeout=_LEADER_S), deadline, exists)
    consumer.assign([TopicPartition(topic, 0, low)])
    newest: dict[bytes, bytes] = {}
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and not _collect(message, newest):
            return newest
    raise JournalUnavailable("the topic could not be read to its end in time", topic=topic)


def _collect(message: Message, newest: dict[bytes, bytes]) -> bool:
    """Add a message to ``newest``. Return False at the end of the partition."""
    error = message.error()
    if error is not None:
        if error.code() == KafkaError._PARTITION_EOF:
            return False
        raise KafkaException(error)
    key, value = message.key(), message.value()
    if isinstance(key, bytes):
        newest.pop(key, None)
        if isinstance(value, bytes):
            newest[key] = value
    return True


def append_records(settings: Settings, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Append to partition 0. All in-sync replicas acknowledge each record before the next one is sent.

    Raises ``JournalUnavailable``. Writing these records twice is harmless, so a time-out is acceptable. The client is
    not idempotent, because an idempotent client without permission to write fails with ``SystemError``.
    """
    timeout_ms = int(settings.start_timeout_s * 1000)
    acknowledged: _Config = {
        "acks": "all",
        "enable.idempotence": False,
        "message.timeout.ms": timeout_ms,
        "linger.ms": 0,
    }
    with _translated(settings, f"writing to {topic}"):
        producer = Producer(_config(settings.producer_config(), acknowledged))
        for key, value in records:
            _append(producer, topic, key, value, settings.start_timeout_s + 1)


def _append(producer: Producer, topic: str, key: bytes, value: bytes, timeout_s: float) -> None:
    outcome: list[KafkaError | None] = []

    def report(error: KafkaError | None, _: Message) -> None:
        outcome.append(error)

    producer.produce(topic, key=key, value=value, partition=0, on_delivery=report)
    producer.flush(timeout_s)
    error = outcome[0] if outcome else KafkaError(KafkaError._MSG_TIMED_OUT)
    if error is not None:
        raise KafkaException(error)
