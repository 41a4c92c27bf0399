"""A topic on a real Kafka as an end of a replay: what it is, what lies beside it, and the states in it.

The production side is only ever asked and read: no group is joined, nothing committed, nothing written.
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
from seekpoint.consumers.staging.copy.whole import whole
from seekpoint.consumers.staging.kafka_replay_errors import TopicErrors
from seekpoint.consumers.staging.kafka_replay_reading import KafkaReading
from seekpoint.consumers.staging.kafka_replay_sender import KafkaSender
from seekpoint.consumers.staging.places import RecordLocation
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplaySource, ReplayTarget, ReplayTopicFacts
from seekpoint.schemas.config.cluster_profiles import Cluster, cluster_of
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused
from seekpoint.schemas.log.log_ports import Watermarks
from seekpoint.schemas.state.process_state import State

__all__ = ["AUDIT_TOPIC", "KafkaTopic", "open_source", "open_target"]

AUDIT_TOPIC = "seekpoint.replays"
"""Where the target's cluster keeps what was replayed into it, by whom."""

_JOURNAL, _SCHEMAS = ".journal", ".schemas"
_RETRY_S = 0.1
_ENDS: tuple[Any, ...] = (OffsetSpec.earliest, OffsetSpec.latest)  # the client ships them without types


def open_source(text: str, clusters: Mapping[str, Cluster]) -> ReplaySource:
    """The source that ``CLUSTER/TOPIC`` or ``FILE.spk`` names. Raises ``InvalidName``, ``InvalidSetting``."""
    place = RecordLocation.parse(text)
    if place.file is not None:
        return CaptureFile(place.file)
    return KafkaTopic(cluster_of(clusters, str(place.cluster)), str(place.topic))


def open_target(
    text: str, source: ReplaySource, clusters: Mapping[str, Cluster], *, overwrite: bool = False
) -> tuple[ReplayTarget, bool]:
    """The target that ``text`` names, and whether it may be written: a file always, a cluster if it is staging.

    Raises ``ReplayRefused`` for a file that is there, unless ``overwrite``.
    """
    place = RecordLocation.parse(text)
    if place.file is not None:
        if isinstance(source, CaptureFile) and source.path.resolve() == Path(place.file).resolve():
            raise ReplayRefused("the target is the source", path=place.file, hint="name another file")
        return CaptureTarget(place.file, source.facts(), overwrite=overwrite), True
    cluster = cluster_of(clusters, str(place.cluster))
    return KafkaTopic(cluster, str(place.topic)), cluster.is_staging


class KafkaTopic:
    """A ``ReplaySource`` and a ``ReplayTarget``. Blocks; connects when first used.

    Errors of the client become ours here.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self._settings = cluster.settings
        self._errors = TopicErrors(cluster, topic)
        self._facts: ReplayTopicFacts | None = None

    # --- what it is
    def facts(self) -> ReplayTopicFacts:
        """Cluster id, topic id, partitions, settings; asked once. ``ReplayRefused`` if there is no such topic."""
        if self._facts is None:
            with self._errors.ours():
                described = self._described(self.topic)
                cluster = self._answer(self._admin.describe_cluster(request_timeout=self._timeout_s))
                # What a source keeps and for how long is of no concern, and asking needs a right of its own.
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
        [asked] = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s).values()
        try:
            return self._answer(asked)
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
        [asked] = self._admin.describe_configs([resource], request_timeout=self._timeout_s).values()
        return {entry.name: entry.value for entry in self._answer(asked).values() if entry.value is not None}

    def marks(self) -> dict[int, Watermarks]:
        """First and next offsets; an open transaction hides what is behind it."""
        lows, highs = (self._offsets(spec()) for spec in _ENDS)
        return {partition: Watermarks(lows[partition], highs[partition]) for partition in sorted(lows)}

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older."""
        found = self._offsets(OffsetSpec.for_timestamp(max(0, timestamp_ms)), (partition,))[partition]
        return found if found >= 0 else None

    def _offsets(self, spec: Any, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """Patiently: a leader that moved refuses first, and a client that knows the old one is not asked again."""
        wanted = range(self.facts().partitions) if partitions is None else partitions
        asked = {TopicPartition(self.topic, partition): spec for partition in wanted}
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                with self._errors.ours():
                    answers = self._admin.list_offsets(
                        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout_s
                    )
                    return {each.partition: int(self._answer(answer).offset) for each, answer in answers.items()}
            except JournalUnavailable:
                if time.monotonic() > deadline:
                    raise
                self.__dict__.pop("_admin", None)
                time.sleep(_RETRY_S)

    # --- reading
    def read(self, stretches: Sequence[OffsetRange]) -> KafkaReading:
        """Read these: assigned by hand."""
        return KafkaReading(self.topic, self._settings, self._errors, stretches)

    def schemas(self) -> dict[bytes, bytes]:
        """The newest values of ``NAME.schemas``, if the topic is ``NAME.journal`` and that one is there."""
        beside = self._beside()
        return {} if beside is None else beside._newest()

    def _beside(self) -> KafkaTopic | None:
        if not self.topic.endswith(_JOURNAL):
            return None
        beside = KafkaTopic(self.cluster, self.topic.removesuffix(_JOURNAL) + _SCHEMAS)
        try:
            beside.facts()
        except ReplayRefused:
            return None
        return beside

    def _newest(self) -> dict[bytes, bytes]:
        marks = self.marks()
        newest: dict[bytes, bytes] = {}
        reading = self.read(
            [OffsetRange(at, mark.low, mark.high) for at, mark in marks.items() if mark.low < mark.high]
        )
        silent = JournalUnavailable("a topic cannot be read to its end", topic=self.topic)
        for messages in whole(reading, self._timeout_s, silent):
            for message in messages:
                key, value = message.key() or b"", message.value()
                newest.pop(key, None)
                if value is not None:
                    newest[key] = value
        return newest

    def state_at(self, process_id: str, offset: int) -> State | None:
        """By recovery, from a checkpoint where one can be used; never from the view, and no dead letter is written."""
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
        """An idempotent producer."""
        if not self.cluster.is_staging:  # the last line of defence: nothing here writes to any other cluster
            raise ReplayRefused("the cluster is not marked as staging", cluster=self.cluster.name)
        return KafkaSender(self.topic, self._settings, self._errors, linger_ms=linger_ms)

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Write schemas that are missing beside the journal."""
        beside = self._beside()
        if beside is not None:
            beside._write(records)

    def audit(self, key: bytes, value: bytes) -> None:
        """Keep it in ``seekpoint.replays`` of this cluster, which is made if it is missing."""
        topic = KafkaTopic(self.cluster, AUDIT_TOPIC)
        try:
            topic.facts()
        except ReplayRefused:
            self._create_audit()
        topic._write({key: value})

    def _create_audit(self) -> None:
        with self._errors.ours():
            brokers = len(self._admin.list_topics(timeout=self._timeout_s).brokers)
            config = {"retention.ms": "-1", "cleanup.policy": "delete"}
            topic = NewTopic(AUDIT_TOPIC, num_partitions=1, replication_factor=min(3, brokers), config=config)
            [made] = self._admin.create_topics([topic], request_timeout=self._timeout_s).values()
            try:
                self._answer(made)
            except KafkaException as exc:
                if exc.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise

    def _write(self, records: Mapping[bytes, bytes]) -> None:
        """Each into partition 0, and acknowledged."""
        sender = self.sender(linger_ms=0)
        left, errors = len(records), []

        def told(error: Any, message: Any) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                errors.append(error)

        try:
            for key, value in records.items():
                sender.produce(value, key, 0, told, 0, None)
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
        """Give up readers; other clients end with their last use."""
        self.__dict__.pop("_admin", None)
        if "_recoverer" in self.__dict__:
            self.__dict__.pop("_recoverer").log.close()

    # --- the client
    @cached_property
    def _admin(self) -> AdminClient:
        with self._errors.ours():
            return AdminClient({**self._settings.admin_config(), **LOGGED})

    @property
    def _timeout_s(self) -> float:
        return self._settings.start_timeout_s

    def _answer(self, asked: Future[Any]) -> Any:
        return asked.result(self._timeout_s + 1)
