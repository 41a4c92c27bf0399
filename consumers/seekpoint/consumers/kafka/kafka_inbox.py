"""The group of workers on Kafka: a consumer group over ``NAME.inbox`` that rebalances cooperatively.

A rebalance moves only the partitions that change hands, and a member goes on with the others meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from seekpoint.consumers.kafka.group_watch import GroupWatch
from seekpoint.consumers.kafka.kafka_client import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    TopicPartition,
)
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, OUT_OF_RANGE, passes, translated
from seekpoint.consumers.kafka.kafka_settings import LOGGED
from seekpoint.consumers.kafka.messages import record_of
from seekpoint.consumers.log_reading.group_members import role_and_topic
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.safe_reading import safe_config

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_pool import KafkaPool
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_BATCH = 500
_LEFT = "_MAX_POLL_EXCEEDED"
"""The event of a member that did not poll for ``max.poll.interval.ms``. Its next poll joins the group again."""
_COMMITTED_S = 10.0
_DEFAULTS: Mapping[str, Any] = {
    "fetch.wait.max.ms": 250,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 500,
}


class KafkaInbox:
    """A member of the group ``NAME.workers.GROUP``. For one thread."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings = settings
        self._topic = settings.topic_name("inbox")
        self._is_closed = False
        self._error: SeekpointError | None = None
        """What the next poll raises."""
        self.is_joined = False
        self.assigned: frozenset[int] = frozenset()
        self._is_moved = True
        """Whether the assignment may have changed since it was asked for, which wakes another thread of the client."""
        self._watch = GroupWatch.of(settings, f"{settings.journal}.workers.{group}")
        with self._translating_errors():
            mine = {
                "group.id": f"{settings.journal}.workers.{group}",
                "partition.assignment.strategy": "cooperative-sticky",
            }
            self._consumer = Consumer(safe_config({**_DEFAULTS, **settings.consumer_config(), **mine, **LOGGED}))
            self._subscribe()

    def _subscribe(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._assign, on_revoke=self._moved)

    def poll(self, timeout_s: float) -> list[Record]:
        """Return the next records of the assigned partitions. An error is raised after the records beside it."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        with self._translating_errors():
            first = self._consumer.poll(timeout_s)
            messages = [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]
            if self._is_moved:
                self._is_moved = False
                self.assigned = frozenset(one.partition for one in self._consumer.assignment())
            if self._watch.look(bool(self.assigned)):
                self._consumer.unsubscribe()
                self._subscribe()
                self.is_joined, self._is_moved = False, True
        records = [self._record(message) for message in messages if self._is_record(message)]
        if self._error is not None and not records:
            return self.poll(0.0)
        return records

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin at the committed offset. A new group begins at the first submission that there is.

        If the offsets cannot be read now, the client reads them itself, and tries again until it can. Without an
        assignment the group would wait for this member, and nobody would read the partitions.
        """
        try:
            committed = consumer.committed(partitions, timeout=_COMMITTED_S)
        except KafkaException as exc:
            _logger.warning("the committed offsets cannot be read: %s", self._settings.scrub(str(exc)))
            committed = []
        if committed and all(one.error is None for one in committed):
            for one in committed:
                if one.offset < 0:
                    one.offset = OFFSET_BEGINNING
            partitions = committed
        consumer.incremental_assign(partitions)
        self.is_joined = self._is_moved = True
        _logger.info("assigned: %s", sorted(one.partition for one in partitions))

    def _moved(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Note that partitions go, or are lost. The client takes them from the assignment after this call."""
        self._is_moved = True

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.name() in OUT_OF_RANGE:
            self._begin_anew(message)
        elif error.name() == _LEFT:
            _logger.warning("the group went on without this member, which was busy for too long; it joins again")
        elif error.name() != END_OF_PARTITION and not passes(error.name()):
            self._error = translated(error.name(), error.str(), self._settings)
        return False

    def _begin_anew(self, message: Message) -> None:
        """Read on at the first record: those before it were deleted by age, or with the topic."""
        partition = message.partition()
        assert partition is not None
        _logger.error("partition %d of %s was read to a record that is gone: some submissions were deleted before a "
                      "worker read them; their clients have to submit them again", partition, self._topic)  # fmt: skip
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, OFFSET_BEGINNING)])

    @staticmethod
    def _record(message: Message) -> Record:
        partition = message.partition()
        assert partition is not None
        return record_of(partition, message)

    def commit(self, partition: int, offset: int) -> None:
        """Commit in the background. A commit that is lost costs a second reading of some submissions."""
        if partition not in self.assigned:
            return
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, partition, offset)], asynchronous=True)
        except KafkaException as exc:
            _logger.debug("%s", self._settings.scrub(str(exc)))

    def close(self) -> None:
        """Leave the group."""
        if not self._is_closed:
            self._is_closed = True
            with self._translating_errors():
                self._consumer.close()

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as exc:
            error = exc.args[0]
            raise translated(error.name(), error.str(), self._settings) from exc


class KafkaTakenInbox:
    """The inbox as far as the groups of workers have committed it: a ``TakenInbox``. Raises ``JournalUnavailable``."""

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
