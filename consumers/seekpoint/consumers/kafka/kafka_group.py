"""The projectors' consumer group: who reads which partition, what arrives, and the barrier before anything is read.

Eager, on purpose: every rebalance takes all partitions away before the group goes on, so whoever had one has settled
it, and a membership captured when partitions are assigned is that of all of them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from seekpoint.consumers.kafka.kafka_client import Consumer, KafkaException, Message, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, OUT_OF_RANGE, passes, translated
from seekpoint.consumers.kafka.kafka_settings import LOGGED
from seekpoint.consumers.kafka.messages import ascend, disorder, offset_of, records_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.safe_reading import DAMAGED, safe

__all__ = ["Fetched", "KafkaGroup"]

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_BARRIER_S = 1.0
_DEFAULTS: Mapping[str, Any] = {
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
}


@dataclass(slots=True)
class Fetched:
    """What arrived of one partition, in order."""

    partition: int
    records: list[Record] = field(default_factory=list)
    next_offset: int = -1
    leader_epoch: int = -1
    """Of the newest record, where the client says it."""
    is_lost: bool = False
    """What was to be read next is not in the log: it says so once, and then nothing more."""
    damage: SeekpointError | None = None
    """What comes next arrived damaged. The client reads on from anywhere: nothing that follows counts."""


class KafkaGroup:
    """A member of the group ``NAME.projector``. One thread's. Raises ``JournalUnavailable`` and ``JournalMismatch``.

    ``on_assigned`` gets the partitions, and the membership as of this moment; nothing is read of them before ``read``.
    ``on_revoked`` has to settle everything before it returns; its argument says whether they are lost already.
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
        with self._ours():
            mine = {"group.id": f"{settings.journal}.projector", "partition.assignment.strategy": "range"}
            self._consumer = Consumer(safe({**_DEFAULTS, **settings.consumer_config(), **mine, **LOGGED}))
            self._consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )

    def poll(self, count: int, timeout_s: float) -> list[Fetched]:
        """What has arrived, at most ``count`` records, by partition; nothing after ``timeout_s``. Calls back."""
        with self._ours():
            first = self._consumer.poll(timeout_s)
            messages = [] if first is None else [first, *self._consumer.consume(count - 1, 0)]
        found: dict[int, Fetched] = {}
        for partition, run in groupby(messages, Message.partition):
            if partition is None or partition < 0:
                for event in run:
                    self._event(event)
            else:
                self._add(found.setdefault(partition, Fetched(partition)), list(run))
        return list(found.values())

    def _add(self, one: Fetched, run: list[Message]) -> None:
        """What came in one go of one partition: mostly nothing but records."""
        said = [message for message in run if message.error() is not None]
        if said:
            run = [message for message in run if message.error() is None]
        if run:
            if not ascend(run):
                one.damage = disorder(self._topic, one.partition, run)
                return
            one.records += records_of(one.partition, run)
            one.next_offset = one.records[-1].offset + 1
            epoch = run[-1].leader_epoch()
            one.leader_epoch = -1 if epoch is None else epoch
        for message in said:
            self._tell(one, message)

    def _tell(self, one: Fetched, message: Message) -> None:
        error = message.error()
        assert error is not None
        if one.damage is not None:
            return
        if error.name() in DAMAGED:
            facts = {"topic": self._topic, "partition": one.partition, "offset": offset_of(message)}
            one.damage = translated(error.name(), error.str(), self._settings, **facts)
        elif error.name() == END_OF_PARTITION:
            one.next_offset = max(one.next_offset, offset_of(message))
        elif error.name() in OUT_OF_RANGE:
            one.is_lost = True
        else:
            self._event(message)

    def _event(self, message: Message) -> None:
        error = message.error()
        if error is None or passes(error.name()):
            _logger.debug("%s", self._settings.scrub("" if error is None else error.str()))
            return
        raise translated(error.name(), error.str(), self._settings)

    def read(self, positions: Mapping[int, int]) -> None:
        """Read these partitions, and only these, from these offsets on."""
        with self._ours():
            self._consumer.assign([TopicPartition(self._topic, *where) for where in positions.items()])

    def hints(self, partitions: Sequence[int]) -> dict[int, int] | None:
        """The barrier: None while a former owner's transaction is undecided; else the hints it left, 0 for none."""
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
        """Member and generation as of now, for a transaction. What is sent with it must have been read after it."""
        return self._consumer.consumer_group_metadata()

    def end(self, partition: int) -> int | None:
        """Where the partition ends, as of the last fetch."""
        with self._ours():
            known = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
        return known[1] if known is not None and known[1] >= 0 else None

    def close(self) -> None:
        """Leave the group."""
        with self._ours():
            self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        consumer.assign([])
        self._on_assigned([one.partition for one in partitions], self.membership())

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._on_revoked(False)
        consumer.unassign()

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._on_revoked(True)
        consumer.unassign()

    @contextlib.contextmanager
    def _ours(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as exc:
            error = exc.args[0]
            raise translated(error.name(), error.str(), self._settings) from exc


def _hint(metadata: str | None) -> int:
    return int(metadata) if metadata and metadata.isdigit() else 0
