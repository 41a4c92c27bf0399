"""What a projector does, blocking, in one thread: poll, project, prepare, save; over and over."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from seekpoint.consumers.kafka.kafka_group import Fetched, KafkaGroup
from seekpoint.consumers.projector.assignment import Assignment
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.proven_states import NothingProven
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.recovery_service.requested_checkpoints import CheckpointRequests
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import JournalGap, Retryable, SeekpointError

__all__ = ["Lag", "ProjectorLoop"]

_logger = logging.getLogger("seekpoint.consumers")

_BATCH_RECORDS = 2_000
_WRITE_RECORDS = 1_000
"""In one call of the view, which holds up everybody else's for so long: 4 ms."""
_POLL_S = 0.1
_HURRY_S = 0.005
"""How long a poll waits while partitions are still to be prepared."""
_FEW_RECORDS = 50
_GATHER_S = 0.01
"""So long a few records wait for more: one at a time each costs ten times as much, in an agent's interpreter too."""
_SAVE_INTERVAL_S = 0.25
_RETRY_S = 0.5
_CHECK_INTERVAL_S = 5.0
_LOOK_INTERVAL_S = 1.0
"""How long a view that is not written may be gone before it is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a partition's view is behind its log."""

    entries: int
    """Offsets that are not projected yet."""
    seconds: float
    """The age of the newest entry that is projected; 0 where none is missing."""
    idle_s: float
    """How long nothing was projected."""
    stopped: str | None = None
    """Why the partition is not projected any more, if so."""
    damages: int = 0
    """States that the view had otherwise than checkpoint and log say, and that were made anew, since the start."""


@dataclass(slots=True)
class _Progress:
    """What is known of a partition besides its projection."""

    end: int = 0
    newest_ms: int = 0
    applied_at_s: float = 0.0
    looked_at_s: float = 0.0


class ProjectorLoop:
    """One member of the projectors' group. ``turn`` is to be called over and over, by one thread, until ``close``."""

    def __init__(
        self,
        settings: Settings,
        source: Callable[[ThreadPoolExecutor], ProjectionSource],
        requests: CheckpointRequests | None = None,
    ) -> None:
        self.assignment: Assignment | None = None
        self.is_forcing = False
        """Whether everything dirty is saved, due or not."""
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="seekpoint-view")
        self.source = replace(source(self._writes), on_damage=self._note_damage)
        self._damages: Counter[int] = Counter()
        self._waiting: tuple[Sequence[int], object] | None = None
        self._is_trickling = False
        self._progress: dict[int, _Progress] = {}
        self._caches: dict[int, StateCache] = {}
        self._transactions = ThreadPoolExecutor(1, thread_name_prefix="seekpoint-checkpoints")
        self._save_at_s = 0.0
        self._checked_at_s = time.monotonic()
        self._requests = requests
        self._group = KafkaGroup(settings, self._assigned, self._revoked)

    @property
    def projections(self) -> Mapping[int, PartitionProjection]:
        """The partitions this member has now."""
        return {} if self.assignment is None else self.assignment.projections

    @property
    def stopped(self) -> Mapping[int, SeekpointError]:
        """Partitions that a person has to look at, with the error that stopped them."""
        return {} if self.assignment is None else self.assignment.stopped

    def turn(self) -> None:
        """One round. Raises what stops the whole projector: a Kafka that refuses, a journal that is another."""
        is_busy = self._waiting is not None or any(not one.is_ready for one in self.projections.values())
        if self._is_trickling and not (is_busy or self.is_forcing):
            time.sleep(_GATHER_S)
        fetched = self._group.poll(_BATCH_RECORDS, _HURRY_S if is_busy or self.is_forcing else _POLL_S)
        self._is_trickling = 0 < sum(len(one.records) for one in fetched) < _FEW_RECORDS
        if self.assignment is not None:
            self._project_all(self.assignment, fetched)
            self._look(self.assignment)
        self._check()
        self._end_save()
        self._prepare()
        self._save()

    def close(self) -> None:
        """Save what is dirty, as far as that goes, and leave the group."""
        try:
            self.is_forcing = True
            self._save_at_once()
        finally:
            self._group.close()
            self._transactions.shutdown()
            self._writes.shutdown()

    # --- the group's callbacks ----------------------------------------------------------------------------------------
    def _assigned(self, partitions: Sequence[int], membership: object) -> None:
        _logger.info("projecting partitions %s", sorted(partitions))
        self.assignment = None
        self._waiting = partitions, membership

    def _revoked(self, is_lost: bool) -> None:
        """Nothing is under way afterwards: a transaction never outlives the call that began it."""
        if self.assignment is not None:
            if is_lost:
                self._end_save(wait=True)
            else:
                self._save_at_once()
            self._caches = {number: one.cache for number, one in self.assignment.projections.items()}
            self.assignment.drop()
        self.assignment = self._waiting = None

    def _begin(self, partitions: Sequence[int], membership: object) -> None:
        """P1: once the barrier is passed."""
        hints = self._group.hints(partitions)
        if hints is None:
            return
        now_s = time.monotonic()
        self._waiting = None
        self._progress = {partition: _Progress(applied_at_s=now_s) for partition in partitions}
        made = [
            PartitionProjection(number, self.source, hint=hints[number], cache=self._caches.get(number))
            for number in partitions
        ]
        self.assignment = Assignment(membership, made, self.source.writer, self._transactions)
        if self._requests is not None:
            self._requests.follow(partitions)

    # --- a turn -------------------------------------------------------------------------------------------------------
    def _prepare(self) -> None:
        if self._waiting is not None:
            self._begin(*self._waiting)
        assignment = self.assignment
        if assignment is None:
            return
        became_ready = False
        for partition in assignment.unprepared():
            assignment.attempt(partition, self._make_ready, assignment.projections[partition])
            became_ready = became_ready or assignment.projections[partition].is_ready
        if became_ready:
            self._group.read({number: one.position for number, one in assignment.projections.items() if one.is_ready})

    def _project_all(self, assignment: Assignment, fetched: Sequence[Fetched]) -> None:
        for one in fetched:
            if one.partition in assignment.projections:
                assignment.attempt(one.partition, self._project, one)
        if not fetched:
            for partition, projection in assignment.projections.items():
                if projection.is_ready:
                    assignment.attempt(partition, projection.flush)

    def _look(self, assignment: Assignment) -> None:
        """A view that was flushed is noticed by the next write; where nothing is written, here."""
        now_s = time.monotonic()
        for partition, projection in assignment.projections.items():
            progress = self._progress[partition]
            if projection.is_ready and now_s - max(progress.looked_at_s, progress.applied_at_s) > _LOOK_INTERVAL_S:
                progress.looked_at_s = now_s
                assignment.attempt(partition, projection.look)

    def _check(self) -> None:
        """Whether the topics are still the journal's; raises if one was deleted or re-created."""
        if time.monotonic() - self._checked_at_s > _CHECK_INTERVAL_S:
            self._checked_at_s = time.monotonic()
            try:
                self.source.log.check()
            except Retryable as exc:
                _logger.info("the journal's topics cannot be looked at: %s", exc)

    def _make_ready(self, projection: PartitionProjection) -> None:
        self._progress[projection.partition].end = self.source.log.watermarks(projection.partition).high
        projection.prepare()

    def _project(self, fetched: Fetched) -> None:
        projection = self.projections[fetched.partition]
        if not projection.is_ready:
            return
        if fetched.damage is not None:
            raise fetched.damage
        if fetched.is_lost:
            projection.reload(anew=True)
            return
        try:
            self._project_records(projection, fetched)
        except NothingProven:
            raise
        except JournalGap:  # trimmed while it was read: whether that is a gap, the newest floor tells
            projection.reload(anew=True)

    def _project_records(self, projection: PartitionProjection, fetched: Fetched) -> None:
        start, progress = projection.position, self._progress[fetched.partition]
        records = [record for record in fetched.records if record.offset >= start]
        if fetched.next_offset <= start or not self._is_complete(
            fetched.partition, start, fetched.next_offset, records
        ):
            return
        for at in range(0, max(1, len(records)), _WRITE_RECORDS):
            some, rest = records[at : at + _WRITE_RECORDS], at + _WRITE_RECORDS
            next_offset = records[rest].offset if rest < len(records) else fetched.next_offset
            if not projection.project(some, next_offset, fetched.leader_epoch):
                return
            progress.applied_at_s = time.monotonic()
            progress.newest_ms = some[-1].timestamp_ms if some else progress.newest_ms

    def _is_complete(self, partition: int, start: int, stop: int, records: Sequence[object]) -> bool:
        """Offsets may have holes; a client that jumped looks the same, so the log is asked."""
        if stop - start == len(records):
            return True
        scanned = sum(batch.scanned for batch in self.source.log.read(partition, start, stop, ()))
        if scanned == len(records):
            return True
        _logger.warning("partition %d: %d of %d records from %d on", partition, len(records), scanned, start)
        self.projections[partition].reload()
        return False

    def _save(self) -> None:
        """Begin a transaction of what is due; the next turns go on beside it."""
        assignment = self.assignment
        if assignment is None or assignment.is_saving:
            return
        if time.monotonic() < self._save_at_s and not self.is_forcing:
            return
        self._save_at_s = time.monotonic() + _SAVE_INTERVAL_S
        if self._requests is not None:
            for partition, projection in assignment.projections.items():
                projection.request(self._requests.take(partition))
        assignment.begin_save(force=self.is_forcing)

    def _save_at_once(self) -> None:
        """Nothing is under way afterwards."""
        self._end_save(wait=True)
        self._save_at_s = 0.0
        self._save()
        self._end_save(wait=True)

    def _end_save(self, *, wait: bool = False) -> None:
        """Take in a transaction that has ended. The next one leaves time between: others have to be prepared."""
        if self.assignment is None:
            return
        try:
            if self.assignment.finish_save(wait=wait):
                self._save_at_s = time.monotonic() + _SAVE_INTERVAL_S
        except Retryable as exc:
            _logger.warning("checkpoints were not written: %s", exc)
            self._save_at_s = time.monotonic() + _RETRY_S

    # --- how far it is ------------------------------------------------------------------------------------------------
    def lag(self) -> dict[int, Lag]:
        """By partition."""
        return {partition: self._lag(partition) for partition in self.projections}

    def _lag(self, partition: int) -> Lag:
        projection, progress = self.projections[partition], self._progress[partition]
        end = max(progress.end, self._group.end(partition) or 0)
        entries = max(0, end - projection.position)
        seconds = max(0.0, time.time() - progress.newest_ms / 1000) if entries and progress.newest_ms else 0.0
        stopped = str(self.stopped[partition]) if partition in self.stopped else None
        idle_s, damages = time.monotonic() - progress.applied_at_s, self._damages[partition]
        return Lag(entries=entries, seconds=seconds, idle_s=idle_s, stopped=stopped, damages=damages)

    def _note_damage(self, partition: int, key: bytes, why: str) -> None:
        self._damages[partition] += 1
