"""The loop of a projector, in one thread: poll, project, prepare, save."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from seekpoint.consumers.log_reading.group_port import Fetched, JoinGroup
from seekpoint.consumers.projector.assignment import Assignment
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.recovery_service.requested_checkpoints import CheckpointRequests
from seekpoint.schemas.errors import JournalGap, Retryable, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Record

_logger = logging.getLogger("seekpoint.consumers")

_BATCH_RECORDS = 4_000
_WRITE_PROCESSES = 1_000
_WRITE_BYTES = 4_194_304
_POLL_S = 0.1
_BUSY_POLL_S = 0.005
"""The wait of a poll while partitions are to be prepared."""
_FEW_RECORDS = 50
_GATHER_S = 0.01
"""A few records wait this long for more: single records cost ten times as much, also in an agent's interpreter."""
_SAVE_INTERVAL_S = 0.25
_RETRY_S = 0.5
_TOPIC_CHECK_INTERVAL_S = 5.0
_VIEW_CHECK_INTERVAL_S = 1.0
"""How long a view that is not written may be gone before the projector notices."""


class Lag(FrozenStruct, frozen=True, kw_only=True):
    """The distance of a partition's view from the end of its log."""

    entries: int
    """Offsets that are not projected yet."""
    seconds: float
    """The age of the newest projected entry; 0 if none is missing."""
    idle_s: float
    """The time since the last projected entry."""
    stopped: str | None = None
    """The error that stopped the partition; None: it is projected."""
    damages: int = 0
    """States in the view that differed from checkpoint and log, and were corrected, since the start."""


@dataclass(slots=True)
class _Progress:
    """The loop's figures of one partition."""

    end: int = 0
    newest_ms: int = 0
    applied_at_s: float = 0.0
    view_checked_at_s: float = 0.0


class ProjectorLoop:
    """One member of the projectors' group. One thread calls ``turn`` again and again, then ``close``."""

    def __init__(
        self,
        join: JoinGroup,
        source: Callable[[ThreadPoolExecutor], ProjectionSource],
        requests: CheckpointRequests | None = None,
    ) -> None:
        self.assignment: Assignment | None = None
        self.is_forcing = False
        """Whether all dirty processes are saved, due or not."""
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="seekpoint-view")
        self.source = replace(source(self._writes), on_damage=self._note_damage)
        self._damages: Counter[int] = Counter()
        self._waiting: tuple[Sequence[int], object] | None = None
        self._is_trickling = False
        self._progress: dict[int, _Progress] = {}
        self._caches: dict[int, StateCache] = {}
        self._transactions = ThreadPoolExecutor(1, thread_name_prefix="seekpoint-checkpoints")
        self._save_at_s = self._retry_at_s = 0.0
        self.save_failure: SeekpointError | None = None
        """The error of the last transaction; None after one that was committed."""
        self._checked_at_s = time.monotonic()
        self._requests = requests
        self._group = join(self._assigned, self._revoked)

    @property
    def is_lost(self) -> bool:
        """Whether nobody projects although the log answers: the group does not take this member again."""
        return self._group.is_lost

    @property
    def projections(self) -> Mapping[int, PartitionProjection]:
        """The projections of the assigned partitions."""
        return {} if self.assignment is None else self.assignment.projections

    @property
    def stopped(self) -> Mapping[int, SeekpointError]:
        """Partitions that a person has to look at, with the error that stopped them."""
        return {} if self.assignment is None else self.assignment.stopped

    def turn(self) -> None:
        """Execute one round. Raises what stops all partitions: Kafka refuses the client, the journal is another."""
        is_busy = self._waiting is not None or any(not one.is_ready for one in self.projections.values())
        if self._is_trickling and not (is_busy or self.is_forcing):
            time.sleep(_GATHER_S)
        fetched = self._group.poll(_BATCH_RECORDS, _BUSY_POLL_S if is_busy or self.is_forcing else _POLL_S)
        self._is_trickling = 0 < sum(len(one.records) for one in fetched) < _FEW_RECORDS
        if self.assignment is not None:
            self._project_all(self.assignment, fetched)
            self._check_views(self.assignment)
        self._check_topics()
        self._end_save()
        self._prepare()
        self._save()

    def close(self) -> None:
        """Save what is dirty, if possible, and leave the group."""
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
        """End the transaction, too: none may be under way when this callback returns."""
        if self.assignment is not None:
            if is_lost:
                self._end_save(wait=True)
            else:
                self._save_at_once()
            self._caches = {number: one.cache for number, one in self.assignment.projections.items()}
            self.assignment.drop()
        self.assignment = self._waiting = None

    def _assign(self, partitions: Sequence[int], membership: object) -> None:
        """Make the projections, once the barrier is passed (P1)."""
        hints = self._group.hints(partitions)
        if hints is None:
            return
        now_s = time.monotonic()
        self._waiting = None
        self._progress = {partition: _Progress(applied_at_s=now_s) for partition in partitions}
        projections = [
            PartitionProjection(number, self.source, hint=hints[number], cache=self._caches.get(number))
            for number in partitions
        ]
        self.assignment = Assignment(membership, projections, self.source.writer, self._transactions)
        if self._requests is not None:
            self._requests.follow(partitions)

    # --- a turn -------------------------------------------------------------------------------------------------------
    def _prepare(self) -> None:
        if self._waiting is not None:
            self._assign(*self._waiting)
        assignment = self.assignment
        if assignment is None:
            return
        became_ready = False
        for partition in assignment.unprepared():
            assignment.attempt(partition, self._prepare_one, assignment.projections[partition])
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

    def _check_views(self, assignment: Assignment) -> None:
        """Notice a view that was flushed. Its next write would notice, too, but nothing may be written."""
        now_s = time.monotonic()
        for partition, projection in assignment.projections.items():
            progress = self._progress[partition]
            checked_at_s = max(progress.view_checked_at_s, progress.applied_at_s)
            if projection.is_ready and now_s - checked_at_s > _VIEW_CHECK_INTERVAL_S:
                progress.view_checked_at_s = now_s
                assignment.attempt(partition, projection.check_view)

    def _check_topics(self) -> None:
        """Raise if a topic of the journal was deleted or re-created."""
        if time.monotonic() - self._checked_at_s > _TOPIC_CHECK_INTERVAL_S:
            self._checked_at_s = time.monotonic()
            try:
                self.source.log.check()
            except Retryable as exc:
                _logger.info("the journal's topics cannot be looked at: %s", exc)

    def _prepare_one(self, projection: PartitionProjection) -> None:
        self._progress[projection.partition].end = self.source.log.watermarks(projection.partition).high
        projection.prepare()

    def _project(self, fetched: Fetched) -> None:
        projection = self.projections[fetched.partition]
        if not projection.is_ready:
            return
        if fetched.damage is not None:
            raise fetched.damage
        if fetched.is_lost:
            projection.reload(checkpoints=True)
            return
        try:
            self._project_records(projection, fetched)
        except JournalGap:  # trimmed during the read: the newest floor shows whether entries are missing
            projection.reload(checkpoints=True)

    def _project_records(self, projection: PartitionProjection, fetched: Fetched) -> None:
        start, progress = projection.position, self._progress[fetched.partition]
        records = [record for record in fetched.records if record.offset >= start]
        if fetched.next_offset <= start or not self._is_complete(
            fetched.partition, start, fetched.next_offset, records
        ):
            return
        size = _write_size(records)
        for at in range(0, max(1, len(records)), size):
            some, rest = records[at : at + size], at + size
            next_offset = records[rest].offset if rest < len(records) else fetched.next_offset
            if not projection.project(some, next_offset, fetched.leader_epoch):
                return
            progress.applied_at_s = time.monotonic()
            progress.newest_ms = some[-1].timestamp_ms if some else progress.newest_ms

    def _is_complete(self, partition: int, start: int, stop: int, records: Sequence[object]) -> bool:
        """Return whether no record of [start, stop) is missing. A hole looks like a skipped record, so ask the log."""
        if stop - start == len(records):
            return True
        scanned = sum(batch.scanned for batch in self.source.log.read(partition, start, stop, ()))
        if scanned == len(records):
            return True
        _logger.warning("partition %d: %d of %d records from %d on", partition, len(records), scanned, start)
        self.projections[partition].reload()
        return False

    def _save(self) -> None:
        """Start a transaction with what is due; it runs during the next turns."""
        assignment = self.assignment
        if assignment is None or assignment.is_saving:
            return
        now_s = time.monotonic()
        if now_s < self._retry_at_s or (now_s < self._save_at_s and not self.is_forcing):
            return
        self._save_at_s = time.monotonic() + _SAVE_INTERVAL_S
        if self._requests is not None:
            for partition, projection in assignment.projections.items():
                projection.request(self._requests.take(partition))
        assignment.begin_save(force=self.is_forcing)

    def _save_at_once(self) -> None:
        """Save what is due, and wait for the end of the transaction."""
        self._end_save(wait=True)
        self._save_at_s = self._retry_at_s = 0.0
        self._save()
        self._end_save(wait=True)

    def _end_save(self, *, wait: bool = False) -> None:
        """Process a transaction that has ended. The next one starts later, so that partitions can be prepared."""
        if self.assignment is None:
            return
        try:
            if self.assignment.finish_save(wait=wait):
                self._save_at_s = time.monotonic() + _SAVE_INTERVAL_S
                self.save_failure = None
        except Retryable as exc:
            _logger.warning("checkpoints were not written: %s", exc)
            self._retry_at_s = time.monotonic() + _RETRY_S
            self.save_failure = exc

    # --- figures ------------------------------------------------------------------------------------------------------
    def lag(self) -> dict[int, Lag]:
        """Return the lag of each assigned partition."""
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


def _write_size(records: Sequence[Record]) -> int:
    """Return how many of ``records`` one call of the view takes.

    The call blocks all other calls for about 1 ms per 60 processes, per 2,000 entries and per half MiB: 4 ms for 125
    processes, 20 ms for 1,000. Fewer calls cost less, because the entries of a process in one call are one change.
    """
    are_few = len({record.key for record in records}) <= _WRITE_PROCESSES
    are_small = sum([len(record.value or b"") for record in records]) <= _WRITE_BYTES
    return _BATCH_RECORDS if are_few and are_small else _WRITE_PROCESSES
