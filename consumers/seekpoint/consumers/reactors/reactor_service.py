"""The service that calls reactors: a member of a group over the journal. Start more members to scale.

    NAME.journal ── FaustDelivery ──> kinds and predicate ──> EntryJudge ──> reactor ──> commit
                                                                                └── after its attempts: dead letter

Reactors are for work beside the agents, at a low rate: Faust takes 0.1 ms for each entry of the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth
from seekpoint.consumers.kafka.faust_delivery import FaustDelivery, LeaderTimer
from seekpoint.consumers.kafka.kafka_group import begin_group_at
from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.consumers.reactors.entry_judge import EntryJudge, Judgement
from seekpoint.consumers.reactors.reactor import Reaction, Reactor
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, Retryable, SeekpointError, UndecodableRecord
from seekpoint.schemas.log.log_ports import Record

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

_RETRY_S = 1.0
_logger = logging.getLogger("seekpoint.consumers.reactors.reactor_service")


@dataclass(slots=True)
class ReactorFigures:
    """Counters of a member since its start."""

    entries: int = 0
    """Entries of the journal that were delivered to this member."""
    reactions: int = 0
    """Calls that ended well."""
    failed_attempts: int = 0
    """Calls that raised or took too long."""
    dead_letters: int = 0
    """Entries that a reactor was not able to handle."""
    not_applied: int = 0
    """Entries of the right kind that the fold does not apply, such as those of a former owner."""


class Reactions:
    """Calls the reactors for one record after the other. It knows nothing of Kafka."""

    def __init__(self, reactors: Iterable[Reactor], recovery: Recovery, dead_letters: DeadLetters) -> None:
        self.reactors = _by_name(reactors)
        self.figures = ReactorFigures()
        self._recovery = recovery
        self._log = recovery.blocking.log
        self._dead_letters = dead_letters
        self._judge = EntryJudge(recovery.blocking)

    async def handle(self, record: Record) -> None:
        """Call every reactor that takes the entry, each until it succeeds or has used up its attempts.

        Raises ``TooManyDeadLetters`` and ``NewerFormat``: the service must stop, and the record stays uncommitted.
        """
        self.figures.entries += 1
        try:
            entry = entry_of(record, self._log.codec, self._log.partitions)
        except UndecodableRecord:
            return  # poison: recovery and projector keep it as a dead letter
        chosen = [one for one in self.reactors if one.takes(record, entry)]
        if not chosen:
            return
        judgement = await self._judged(record, entry)
        if judgement is None or not judgement.is_applied:
            self.figures.not_applied += 1
            return
        for one in chosen:
            await self._call(one, record, entry, judgement)

    async def _judged(self, record: Record, entry: Entry) -> Judgement | None:
        """Judge the entry, and wait while Kafka cannot be read. None if too much of the log was trimmed."""
        judge = partial(self._judge.judge, entry.process_id, record.partition, record.offset)
        while True:
            try:
                return await asyncio.to_thread(judge)
            except Retryable as exc:
                _logger.warning("%d:%d cannot be judged yet: %s", record.partition, record.offset, exc)
                await asyncio.sleep(_RETRY_S)
            except SeekpointError as exc:
                for one in self.reactors:
                    if one.takes(record, entry):
                        await self._give_up(one, record, exc)
                return None

    async def _call(self, reactor: Reactor, record: Record, entry: Entry, judgement: Judgement) -> None:
        for attempt in range(1, reactor.attempts + 1):
            if attempt > 1:
                await asyncio.sleep(reactor.pause_before(attempt))
            reaction = Reaction(
                reactor=reactor.name, entry=entry, partition=record.partition, offset=record.offset,
                timestamp_ms=record.timestamp_ms, state=judgement.state, attempt=attempt,
            )  # fmt: skip
            try:
                async with asyncio.timeout(reactor.timeout_s):
                    await reactor(reaction)
            except Exception as exc:  # of the user's code
                self.figures.failed_attempts += 1
                failure = SeekpointError(f"reactor {reactor.name}: {type(exc).__name__}: {exc}")
                _logger.warning("attempt %d of %s failed: %s", attempt, reaction.id, failure.message)
            else:
                self.figures.reactions += 1
                return
        await self._give_up(reactor, record, failure)

    async def _give_up(self, reactor: Reactor, record: Record, error: SeekpointError) -> None:
        """Keep the record as a dead letter of the reactor; wait while Kafka does not take it."""
        add = partial(self._dead_letters.add, record, error, reactor=reactor.name)
        while (refusal := await asyncio.to_thread(add)) is not None:
            if not isinstance(refusal, Retryable):
                _logger.warning("the dead letter of %s was not written: %s", reactor.name, refusal)
                break
            await asyncio.sleep(_RETRY_S)
        self.figures.dead_letters += 1


class ReactorService:
    """One member: ``async with ReactorService([tell_finance], settings) as service: await service.run()``.

    ``group`` names the group that shares the journal's partitions; it has one position for all its reactors. A new
    group begins with what is written from now on, or with the whole journal if ``from_beginning``. The leader of the
    group also makes the calls of ``timers``; a member with timers needs no reactors.
    """

    def __init__(
        self,
        reactors: Iterable[Reactor],
        settings: Settings,
        *,
        group: str = "reactors",
        from_beginning: bool = False,
        stall_max_s: float = STALL_MAX_S,
        timers: Iterable[LeaderTimer] = (),
    ) -> None:
        from seekpoint.consumers.kafka.kafka_reader import KafkaReader

        timers, reactors = tuple(timers), tuple(reactors)
        if not reactors and not timers:
            raise InvalidSetting("no reactor is given", setting="reactors")
        self.settings = settings
        self.group = f"{settings.journal}.reactors.{group}"
        self.health = ProgressHealth(stall_max_s)
        self._from_beginning = from_beginning
        self._reader: KafkaReader = KafkaReader(settings)
        self._recovery = Recovery.over(self._reader, settings)
        self.reactions = Reactions(reactors, self._recovery, DeadLetters(self._reader, settings))
        self.delivery = FaustDelivery(
            self._reader, app_name=self.group, topic="journal", handle=self.reactions.handle, health=self.health,
            timers=timers,
        )  # fmt: skip

    @property
    def figures(self) -> ReactorFigures:
        """Return the counts of this member since its start."""
        return self.reactions.figures

    async def start(self) -> Self:
        """Check the journal, place a new group and join it."""
        try:
            await asyncio.to_thread(self._place_group)
            await self.delivery.start()
        except BaseException:
            await self.close()
            raise
        return self

    def _place_group(self) -> None:
        partitions = range(self._reader.partitions)  # connects and checks the journal
        marks = {partition: self._reader.watermarks(partition) for partition in partitions}
        offsets = {at: found.low if self._from_beginning else found.high for at, found in marks.items()}
        begin_group_at(self.settings, self.group, self.settings.topic_name("journal"), offsets)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Call reactors until ``stop`` is set. Raises ``JournalUnavailable`` if Faust ends: start the service again."""
        await self.delivery.run(stop)

    async def close(self) -> None:
        """Leave the group and close connections. The next member handles what is not committed."""
        await self.delivery.close()
        self._recovery.close()
        await asyncio.to_thread(self._reader.close)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _by_name(reactors: Iterable[Reactor]) -> list[Reactor]:
    found: dict[str, Reactor] = {}
    for one in reactors:
        if found.setdefault(one.name, one) is not one:
            raise InvalidSetting("two reactors have the same name", setting="name", value=one.name)
    return list(found.values())
