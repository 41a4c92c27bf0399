"""The source and target of a replay on Kafka: a topic, its schemas topic, and the states in it.

A source is only read: no group is joined, no offset committed, no record written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from seekpoint.consumers.kafka.kafka_client import (
    AdminClient,
    ConfigResource,
    IsolationLevel,
    KafkaException,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicCollection,
    TopicPartition,
)
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.kafka.kafka_settings import LOGGED
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.staging.capture.capture_file import CaptureFile
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.full_read import read_between
from seekpoint.consumers.staging.kafka_range_reader import KafkaRangeReader
from seekpoint.consumers.staging.kafka_replay_errors import TopicErrors
from seekpoint.consumers.staging.kafka_replay_sender import KafkaSender
from seekpoint.consumers.staging.record_location import RecordLocation
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplaySource, ReplayTarget, ReplayTopicFacts
from seekpoint.schemas.config.cluster_profiles import Cluster, cluster_of
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused
from seekpoint.schemas.log.log_ports import Watermarks
from seekpoint.schemas.state.process_state import State

AUDIT_TOPIC = "seekpoint.replays"
"""The topic of audit entries, in the target's cluster."""

_JOURNAL, _SCHEMAS = ".journal", ".schemas"
_RETRY_S = 0.1
_ENDS: tuple[Any, ...] = (OffsetSpec.earliest, OffsetSpec.latest)  # the client has no types for them


def open_source(text: str, clusters: Mapping[str, Cluster]) -> ReplaySource:
    """Return the source named ``CLUSTER/TOPIC`` or ``FILE.spk``. Raises ``InvalidName`` or ``InvalidSetting``."""
    location = RecordLocation.parse(text)
    if location.file is not None:
        return CaptureFile(location.file)
    return KafkaTopic(cluster_of(clusters, str(location.cluster)), str(location.topic))


def open_target(
    text: str, source: ReplaySource, clusters: Mapping[str, Cluster], *, overwrite: bool = False
) -> tuple[ReplayTarget, bool]:
    """Return the target that ``text`` names, and whether a replay may write there: a file, or a staging cluster.

    Raises ``ReplayRefused`` for an existing file, unless ``overwrite``.
    """
    location = RecordLocation.parse(text)
    if location.file is not None:
        if isinstance(source, CaptureFile) and source.path.resolve() == Path(location.file).resolve():
            raise ReplayRefused("the target is the source", path=location.file, hint="name another file")
        return CaptureTarget(location.file, source.facts(), overwrite=overwrite), True
    cluster = cluster_of(clusters, str(location.cluster))
    return KafkaTopic(cluster, str(location.topic)), cluster.is_staging


class KafkaTopic:
    """A ``ReplaySource`` and a ``ReplayTarget``. Blocks, connects on first use, and raises Seekpoint's errors only."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self._settings = cluster.settings
        self._errors = TopicErrors(cluster, topic)
        self._facts: ReplayTopicFacts | None = None

    # --- facts
    def facts(self) -> ReplayTopicFacts:
        """Return the topic's facts, requested once. Raises ``ReplayRefused`` if there is no such topic."""
        if self._facts is None:
            with self._errors.translating_errors():
                described = self._described(self.topic)
                cluster = self._answer(self._admin.describe_cluster(request_timeout=self._timeout_s))
                # A source's settings do not matter, and reading them needs a permission of its own.
                config = self._config() if self.cluster.is_staging else {}
            self._facts = ReplayTopicFacts(
                cluster_id=str(cluster.cluster_id),
                topic=self.topic,
                topic_id=str(described.topic_id),
                partitions=len(described.partitions),
                config=config,
            )
        return self._facts

    def _described(self, topic: str) -> Any:
        [future] = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s).values()
        try:
            return self._answer(future)
        except KafkaException as exc:
            if exc.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                raise
            raise ReplayRefused(
                "there is no such topic",
                cluster=self.cluster.name,
                topic=topic,
                hint="create it first; a journal's topics with seekpoint topics create",
            ) from exc

    def _config(self) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        [future] = self._admin.describe_configs([resource], request_timeout=self._timeout_s).values()
        return {entry.name: entry.value for entry in self._answer(future).values() if entry.value is not None}

    def watermarks(self) -> dict[int, Watermarks]:
        """Return the first and next offsets; an open transaction hides everything behind its start."""
        lows, highs = (self._offsets(spec()) for spec in _ENDS)
        return {partition: Watermarks(lows[partition], highs[partition]) for partition in sorted(lows)}

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset whose record is not older; None if there is none."""
        found = self._offsets(OffsetSpec.for_timestamp(max(0, timestamp_ms)), (partition,))[partition]
        return found if found >= 0 else None

    def _offsets(self, spec: Any, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """List offsets. Retry with a new client while a partition moves to another leader."""
        wanted = range(self.facts().partitions) if partitions is None else partitions
        request = {TopicPartition(self.topic, partition): spec for partition in wanted}
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                with self._errors.translating_errors():
                    answers = self._admin.list_offsets(
                        request, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout_s
                    )
                    return {each.partition: int(self._answer(answer).offset) for each, answer in answers.items()}
            except JournalUnavailable:
                if time.monotonic() > deadline:
                    raise
                self.__dict__.pop("_admin", None)
                time.sleep(_RETRY_S)

    # --- reading
    def read(self, ranges: Sequence[OffsetRange]) -> KafkaRangeReader:
        """Read these ranges with one consumer."""
        return KafkaRangeReader(self.topic, self._settings, self._errors, ranges)

    def schemas(self) -> dict[bytes, bytes]:
        """Return the newest values of ``NAME.schemas`` if the topic is ``NAME.journal``; empty if there is none."""
        topic = self._schemas_topic()
        return {} if topic is None else topic._newest()

    def _schemas_topic(self) -> KafkaTopic | None:
        if not self.topic.endswith(_JOURNAL):
            return None
        topic = KafkaTopic(self.cluster, self.topic.removesuffix(_JOURNAL) + _SCHEMAS)
        try:
            topic.facts()
        except ReplayRefused:
            return None
        return topic

    def _newest(self) -> dict[bytes, bytes]:
        newest: dict[bytes, bytes] = {}
        watermarks = self.watermarks()
        starts = {partition: mark.low for partition, mark in watermarks.items()}
        ends = {partition: mark.high for partition, mark in watermarks.items()}
        timeout = JournalUnavailable("a topic cannot be read to its end", topic=self.topic)
        for messages in read_between(self, starts, ends, self._timeout_s, timeout):
            for message in messages:
                key, value = message.key() or b"", message.value()
                newest.pop(key, None)
                if value is not None:
                    newest[key] = value
        return newest

    def state_at(self, process_id: str, offset: int) -> State | None:
        """Recover a state from a checkpoint or the log, without the view and without writing dead letters."""
        recoverer, point = self._recoverer, Point(offset=offset)
        found = recoverer.recover(process_id, point=point, missing_ok=True)
        return found.state if found.state.offset >= 0 else None

    @cached_property
    def _recoverer(self) -> Recoverer:
        settings = replace(self._settings, journal=self.topic.removesuffix(_JOURNAL), redis_url=None)
        reader = KafkaReader(settings)
        return Recoverer(reader, None, checkpoints=reader.checkpoints())

    # --- writing
    def sender(self, *, linger_ms: float) -> KafkaSender:
        """Return an idempotent producer. Raises ``ReplayRefused`` for a cluster that is not staging."""
        if not self.cluster.is_staging:  # the last check: no other code of a replay writes
            raise ReplayRefused("the cluster is not marked as staging", cluster=self.cluster.name)
        return KafkaSender(self.topic, self._settings, self._errors, linger_ms=linger_ms)

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Write records to the journal's schemas topic, if it exists."""
        topic = self._schemas_topic()
        if topic is not None:
            topic._write(records)

    def audit(self, key: bytes, value: bytes) -> None:
        """Write an audit entry to ``seekpoint.replays`` of this cluster; create that topic if it is missing."""
        topic = KafkaTopic(self.cluster, AUDIT_TOPIC)
        try:
            topic.facts()
        except ReplayRefused:
            self._create_audit()
        topic._write({key: value})

    def _create_audit(self) -> None:
        with self._errors.translating_errors():
            brokers = len(self._admin.list_topics(timeout=self._timeout_s).brokers)
            config = {"retention.ms": "-1", "cleanup.policy": "delete"}
            topic = NewTopic(AUDIT_TOPIC, num_partitions=1, replication_factor=min(3, brokers), config=config)
            [future] = self._admin.create_topics([topic], request_timeout=self._timeout_s).values()
            try:
                self._answer(future)
            except KafkaException as exc:
                if exc.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise

    def _write(self, records: Mapping[bytes, bytes]) -> None:
        """Write records to partition 0, and wait until they are acknowledged."""
        sender = self.sender(linger_ms=0)
        left, errors = len(records), []

        def on_delivery(error: Any, message: Any) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                errors.append(error)

        try:
            for key, value in records.items():
                sender.produce(value, key, 0, on_delivery, 0, None)
            deadline = time.monotonic() + self._timeout_s
            while left and not errors and time.monotonic() < deadline:
                sender.poll(_RETRY_S)
            if errors:
                raise sender.refusal(errors[0])
            if left:
                raise JournalUnavailable("the target does not acknowledge", topic=self.topic)
        finally:
            sender.close()

    def close(self) -> None:
        """Close the reader of states; other clients end with their last use."""
        self.__dict__.pop("_admin", None)
        if "_recoverer" in self.__dict__:
            self.__dict__.pop("_recoverer").log.close()

    # --- the client
    @cached_property
    def _admin(self) -> AdminClient:
        with self._errors.translating_errors():
            return AdminClient({**self._settings.admin_config(), **LOGGED})

    @property
    def _timeout_s(self) -> float:
        return self._settings.start_timeout_s

    def _answer(self, future: Future[Any]) -> Any:
        return future.result(self._timeout_s + 1)
