"""The projectors' consumer group: assignment, records, and the barrier before a partition is read.

``begin_group_at`` says where another group begins.

The group rebalances eagerly: each rebalance revokes all partitions before the group goes on. So the former owner of a
partition has finished its saves, and one membership, captured at the assignment, is that of all partitions.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from seekpoint.consumers.kafka.group_watch import GroupWatch
from seekpoint.consumers.kafka.kafka_client import Consumer, KafkaException, Message, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, OUT_OF_RANGE, passes, translated
from seekpoint.consumers.kafka.kafka_settings import LOGGED
from seekpoint.consumers.kafka.messages import are_ascending, disorder_error, offset_of, records_of
from seekpoint.consumers.log_reading.group_port import Fetched
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.safe_reading import DAMAGED_RECORD_ERRORS, safe_config

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_BARRIER_S = 1.0
_ANSWER_S = 30.0
_DEFAULTS: Mapping[str, Any] = {
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
}


class KafkaGroup:
    """A member of the group ``NAME.projector``. For one thread. Raises ``JournalUnavailable`` and ``JournalMismatch``.

    ``on_assigned`` receives the partitions and the present membership; ``read`` starts to read them. ``on_revoked`` has
    to finish all saves before it returns; its argument is whether the partitions are lost already.
    """

    def __init__(
        self,
        settings: Settings,
        on_assigned: Callable[[Sequence[int], object], None],
        on_revoked: Callable[[bool], None],
    ) -> None:
        self._settings = settings
        self._topic = settings.topic_name("journal")
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._has_partitions = False
        self._watch = GroupWatch.of(settings, f"{settings.journal}.projector")
        with self._translating_errors():
            mine = {"group.id": f"{settings.journal}.projector", "partition.assignment.strategy": "range"}
            self._consumer = Consumer(safe_config({**_DEFAULTS, **settings.consumer_config(), **mine, **LOGGED}))
            self._subscribe()

    def _subscribe(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    @property
    def is_lost(self) -> bool:
        """Whether nobody reads for the group although Kafka answers."""
        return self._watch.is_lost

    def poll(self, count: int, timeout_s: float) -> list[Fetched]:
        """Return at most ``count`` records, by partition; none after ``timeout_s``. May call both callbacks."""
        with self._translating_errors():
            first = self._consumer.poll(timeout_s)
            messages = [] if first is None else [first, *self._consumer.consume(count - 1, 0)]
            if self._watch.look(self._has_partitions):
                self._consumer.unsubscribe()
                self._subscribe()
        found: dict[int, Fetched] = {}
        for partition, run in groupby(messages, Message.partition):
            if partition is None or partition < 0:
                for event in run:
                    self._raise_final(event)
            else:
                self._add(found.setdefault(partition, Fetched(partition)), list(run))
        return list(found.values())

    def _add(self, one: Fetched, run: list[Message]) -> None:
        """Add one run of messages, which are mostly records."""
        events = [message for message in run if message.error() is not None]
        if events:
            run = [message for message in run if message.error() is None]
        if run:
            if not are_ascending(run):
                one.damage = disorder_error(self._topic, one.partition, run)
                return
            one.records += records_of(one.partition, run)
            one.next_offset = one.records[-1].offset + 1
            epoch = run[-1].leader_epoch()
            one.leader_epoch = -1 if epoch is None else epoch
        for message in events:
            self._add_event(one, message)

    def _add_event(self, one: Fetched, message: Message) -> None:
        error = message.error()
        assert error is not None
        if one.damage is not None:
            return
        if error.name() in DAMAGED_RECORD_ERRORS:
            name, text, offset = error.name(), error.str(), offset_of(message)
            one.damage = translated(
                name, text, self._settings, topic=self._topic, partition=one.partition, offset=offset
            )
        elif error.name() == END_OF_PARTITION:
            one.next_offset = max(one.next_offset, offset_of(message))
        elif error.name() in OUT_OF_RANGE:
            one.is_lost = True
        else:
            self._raise_final(message)

    def _raise_final(self, message: Message) -> None:
        error = message.error()
        if error is None or passes(error.name()):
            _logger.debug("%s", self._settings.scrub("" if error is None else error.str()))
            return
        raise translated(error.name(), error.str(), self._settings)

    def read(self, positions: Mapping[int, int]) -> None:
        """Read only these partitions, from these offsets on."""
        with self._translating_errors():
            self._consumer.assign([TopicPartition(self._topic, *where) for where in positions.items()])

    def hints(self, partitions: Sequence[int]) -> dict[int, int] | None:
        """Return the former owners' hints (0: none). The barrier: None while one of their transactions is undecided."""
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        try:
            found = self._consumer.committed(wanted, timeout=_BARRIER_S)
        except KafkaException as exc:
            error = exc.args[0]
            if passes(error.name()):
                return None
            raise translated(error.name(), error.str(), self._settings) from exc
        if any(one.error is not None for one in found):
            return None
        return {one.partition: _hint(one.metadata) for one in found}

    def membership(self) -> object:
        """Return the present member and generation, for a transaction of states that are read afterwards."""
        return self._consumer.consumer_group_metadata()

    def end(self, partition: int) -> int | None:
        """Return the partition's end as of the last fetch; None if nothing was fetched."""
        with self._translating_errors():
            known = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
        return known[1] if known is not None and known[1] >= 0 else None

    def close(self) -> None:
        """Leave the group."""
        with self._translating_errors():
            self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        consumer.assign([])
        self._has_partitions = bool(partitions)
        self._on_assigned([one.partition for one in partitions], self.membership())

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._has_partitions = False
        self._on_revoked(False)
        consumer.unassign()

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._has_partitions = False
        self._on_revoked(True)
        consumer.unassign()

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as exc:
            error = exc.args[0]
            raise translated(error.name(), error.str(), self._settings) from exc


def _hint(metadata: str | None) -> int:
    return int(metadata) if metadata and metadata.isdigit() else 0


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
