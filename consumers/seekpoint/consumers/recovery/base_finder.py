"""Where a recovery may start from: a state somebody kept, and the seek point that goes with it.

    view ──> the view's pointer pair ──> the checkpoint partition ──> the beginning of the log

Each way gives a ``Base`` or says why it cannot: ``Unusable``. What a newer Seekpoint wrote is never passed over:
``NewerFormat`` goes to the caller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import field

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, CheckpointReader, Floor, Saved, seek_point
from seekpoint.consumers.checkpoints.checkpoint_index import CheckpointIndex, Located
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.view_store import Seen, ViewMeta, ViewStore
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import (
    JournalMismatch,
    LogDamaged,
    NewerFormat,
    SeekpointError,
    ViewRefused,
    ViewUnavailable,
)
from seekpoint.schemas.log.log_ports import Landmark, LogReader, Watermarks
from seekpoint.schemas.state.state import State, new_state

__all__ = ["Base", "BaseFinder", "Search", "Unusable", "Way", "checkpoint_of", "view_problem"]

_COMPACTED_RETRIES = 3
_VIEW_REST_S = 5.0
_LITTLE_LOG, _LITTLE_SAVED = 20_000, 2_000
"""So many journal offsets, and so many checkpoint positions, are read in less time than a Redis client loads in."""
_LOAD_LATER_S = 1.0


class Unusable(Exception):
    """Why a way is not taken. ``usual``: nothing is wrong, it just is not there (yet), or not for this point."""

    def __init__(self, reason: str, *, usual: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.usual = usual


@dataclass(frozen=True, slots=True)
class Base:
    """A state as of everything below ``seek_point``."""

    tier: Tier
    state: State
    seek_point: int
    landmarks: tuple[Landmark, ...] = ()
    """Records this state stands on: where one of them is another record now, the log was truncated."""
    floor_unknown: bool = False
    """Whether the seek point is a floor whose own record is not among the landmarks."""


@dataclass(slots=True)
class Search:
    """One recovery under way: what is wanted, and what was found out so far."""

    process_id: str
    key: bytes
    partition: int
    seq: int | None = None
    """The base must lie before this seq."""
    stop: int | None = None
    """The base must hold nothing from here on."""
    seen: Seen | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def past(self) -> bool:
        """Whether a point in the past is wanted."""
        return self.seq is not None or self.stop is not None

    def admit(self, state: State) -> None:
        """Refuse a base that is newer than what is wanted."""
        if (self.stop is not None and state.offset >= self.stop) or (self.seq is not None and state.seq >= self.seq):
            raise Unusable("it is newer than the point that is asked for", usual=True)


Way = Callable[[Search, Watermarks], Base]


class BaseFinder:
    """The ways to a base, over a log and what is kept beside it. Thread safe; blocks."""

    def __init__(self, log: LogReader, view: ViewStore | None, checkpoints: CheckpointReader | None) -> None:
        self._log = log
        self.view = view
        self.checkpoints = checkpoints
        self.index = None if checkpoints is None else CheckpointIndex(checkpoints)
        self._view_rests_until = 0.0
        self._view_said = ""
        self.is_starting = False
        """Whether the view may be left alone as long as its client is not loaded: a node that starts is in a hurry."""
        self._loading = False

    # --- the view -------------------------------------------------------------------------------------------------
    def from_view(self, search: Search, marks: Watermarks) -> Base:
        """The view's state: one call, made before ``marks`` were asked."""
        seen = self._see(search)
        meta, problem = seen.meta, view_problem(seen.meta, self._log.topic_id, marks)
        if meta is None or meta.applied is None or problem is not None:
            raise Unusable(problem or "there is none", usual=meta is None)
        if seen.damage is not None:
            raise Unusable(seen.damage)
        state = seen.state or new_state()
        search.admit(state)
        return Base(Tier.VIEW, state, meta.applied + 1, (Landmark(meta.applied, meta.leader_epoch),))

    def look(self, search: Search, *, insist: bool = False) -> None:
        """Ask the view, if there is one, and keep the answer; that it gave none is a note.

        One that did not answer is left alone for five seconds, so that a dead Redis costs nobody a time-out a call;
        ``insist``: not now.
        """
        if self.view is None:
            return
        if self.is_starting and not insist and self._is_quicker_without(search.partition):
            return
        if not insist and time.monotonic() < self._view_rests_until:
            search.notes.append(self._view_said)
            return
        try:
            search.seen = self.view.see(search.partition, search.key)
        except (ViewUnavailable, ViewRefused, JournalMismatch) as exc:
            self._view_said = f"view: {exc.message}"
            search.notes.append(self._view_said)
            if not isinstance(exc, JournalMismatch):
                self._view_rests_until = time.monotonic() + _VIEW_REST_S

    def _is_quicker_without(self, partition: int) -> bool:
        """Whether reading the little there is takes less than loading the view's client (140 ms): a node that starts.

        The client is loaded a moment later, beside the work.
        """
        load = getattr(self.view, "load_client", None)
        if load is None or self.view is None or self.view.is_loaded:  # type: ignore[attr-defined]  # both or none
            return False
        low, high = self._log.watermarks(partition)
        saved = 0 if self.checkpoints is None else self.checkpoints.end(partition)
        if high - low > _LITTLE_LOG or saved > _LITTLE_SAVED:
            return False
        if not self._loading:
            self._loading = True
            timer = threading.Timer(_LOAD_LATER_S, load)
            timer.daemon = True
            timer.start()
        return True

    def _see(self, search: Search) -> Seen:
        if self.view is None:
            raise Unusable("no view is kept", usual=True)
        if search.seen is None:
            raise Unusable(search.notes[0].partition(": ")[2] if search.notes else "it was not asked", usual=True)
        return search.seen

    # --- checkpoints ----------------------------------------------------------------------------------------------
    def from_pointer(self, search: Search, marks: Watermarks) -> Base:
        """The checkpoint the view points at, with the floor that was written with it, and no other (P7)."""
        if self.checkpoints is None or search.seen is None or search.seen.pointer is None:
            raise Unusable("no pointer to a checkpoint", usual=True)
        pointer = search.seen.pointer
        value = self.checkpoints.at(search.partition, pointer.position, search.key)
        if value is None:
            raise Unusable("the checkpoint that the view points at was compacted away", usual=True)
        checkpoint, state = checkpoint_of(value, search.process_id, self._log.topic_id)
        start = seek_point(checkpoint.offset, pointer.floor)
        return self._checkpoint_base(search, marks, checkpoint, state, start, None)

    def from_index(self, search: Search, marks: Watermarks) -> Base:
        """The newest checkpoint in the partition with the newest floor there; without one, the floor (P7)."""
        if self.index is None:
            raise Unusable("no checkpoints are kept", usual=True)
        return self.from_located(search, marks, self.index.find(search.partition, search.key))

    def from_located(self, search: Search, marks: Watermarks, found: Located, value: bytes | None = None) -> Base:
        """The checkpoint that the index has; ``value``: its record, if it was read already."""
        assert self.index is not None
        for _ in range(_COMPACTED_RETRIES):
            base = self._located(search, marks, found, value)
            if base is not None:
                return base
            found = self.index.find(search.partition, search.key)  # a newer one took its place meanwhile
        raise Unusable("checkpoints are compacted away faster than they are read")

    def from_older(self, search: Search, marks: Watermarks) -> Base:
        """For a point in the past: the newest checkpoint before it that compaction left, read on from right behind it.

        Reads the whole checkpoint partition: only for a log whose beginning is gone.
        """
        if self.checkpoints is None or self.index is None or not search.past:
            raise Unusable("no checkpoints are kept", usual=True)
        best: tuple[Checkpoint, State] | None = None
        stop = self.checkpoints.stable_end(search.partition)
        for _, key, value in self.checkpoints.records(search.partition, 0, stop):
            if key == search.key and value is not None:
                try:
                    checkpoint, state = checkpoint_of(value, search.process_id, self._log.topic_id)
                    search.admit(state)
                except Unusable:
                    continue
                best = checkpoint, state
        if best is None:
            raise Unusable("no checkpoint before that point is left")
        return self._checkpoint_base(search, marks, *best, best[0].offset + 1, None)

    def _located(self, search: Search, marks: Watermarks, found: Located, value: bytes | None) -> Base | None:
        """The base that the index leads to; None if its record is not there any more."""
        if not found.settled and self._wants_settled(marks, found):
            assert self.index is not None
            found, value = self.index.find(search.partition, search.key, settle=True), None
        _refuse_damage(found, self._log.topic_id)
        if found.saved is None:
            return self._floor_base(marks, found)
        return self._saved_base(search, marks, found.saved, found.floor, value)

    def _saved_base(
        self, search: Search, marks: Watermarks, saved: Saved, floor: Floor | None, value: bytes | None
    ) -> Base | None:
        assert self.checkpoints is not None
        if value is None:
            value = self.checkpoints.at(search.partition, saved.position, search.key)
        if value is None:
            return None
        checkpoint, state = checkpoint_of(value, search.process_id, self._log.topic_id)
        start = seek_point(checkpoint.offset, floor.offset if floor else 0)
        return self._checkpoint_base(search, marks, checkpoint, state, start, floor)

    def _wants_settled(self, marks: Watermarks, found: Located) -> bool:
        """Whether only what is being written just now could help: a proof of absence, or a floor inside the log."""
        if found.damage is not None or found.empty or found.floor is None:
            return False
        offset = None if found.saved is None else found.saved.offset
        return found.saved is None or seek_point(offset, found.floor.offset) < marks.low

    def _floor_base(self, marks: Watermarks, found: Located) -> Base:
        """For a process without a checkpoint: it has no entry below the floor."""
        floor = found.floor
        if floor is None:
            raise Unusable("no checkpoint of it, and no floor", usual=found.empty)
        if not found.settled:
            raise Unusable("an open transaction hides what comes behind it")
        if floor.offset < marks.low:
            raise Unusable(f"the floor {floor.offset} lies below the log's beginning {marks.low}")
        if floor.offset > marks.high:
            raise Unusable(f"the floor {floor.offset} lies beyond the log's end {marks.high}: a truncated log")
        return Base(Tier.CHECKPOINT, new_state(), floor.offset, (floor.landmark,))

    def _checkpoint_base(
        self, search: Search, marks: Watermarks, checkpoint: Checkpoint, state: State, start: int, floor: Floor | None
    ) -> Base:
        search.admit(state)
        if start < marks.low:
            raise Unusable(f"its seek point {start} lies below the log's beginning {marks.low}")
        if checkpoint.offset >= marks.high or start > marks.high:
            raise Unusable(f"it stands beyond the log's end {marks.high}: a truncated log")
        landmarks = [checkpoint.landmark]
        if floor is not None:
            landmarks.append(floor.landmark)
        unknown = floor is None and start > checkpoint.offset + 1
        return Base(Tier.CHECKPOINT, state, start, tuple(landmarks), unknown)

    def floor_base(self, partition: int, marks: Watermarks) -> Base | None:
        """The base of whatever has no checkpoint, if there is a floor that may be used."""
        if self.index is None:
            return None
        try:
            found = self.index.find(partition, FLOOR_KEY, settle=True)
            _refuse_damage(found, self._log.topic_id)
            return self._floor_base(marks, found)
        except (Unusable, LogDamaged):
            return None

    # --- all of them ----------------------------------------------------------------------------------------------
    def ways(self, search: Search, marks: Watermarks, tier: Tier | None) -> Iterator[tuple[Tier, Way]]:
        """Which ways to try, the quickest first."""
        if tier in (None, Tier.VIEW):
            yield Tier.VIEW, self.from_view
        if tier in (None, Tier.CHECKPOINT):
            yield Tier.CHECKPOINT, self.from_pointer
            yield Tier.CHECKPOINT, self.from_index
            if marks.low > 0 and search.past:
                yield Tier.CHECKPOINT, self.from_older


def view_problem(meta: ViewMeta | None, topic_id: str, marks: Watermarks) -> str | None:
    """Why a view may not be used; None if it may."""
    if meta is None:
        return "there is none"
    if meta.topic_id != topic_id:
        return "it is of another journal topic"
    if meta.applied is None:
        return "it is being rebuilt"
    if meta.applied >= marks.high:
        return f"it stands beyond the log's end {marks.high}: a truncated log"
    if meta.applied + 1 < marks.low:
        return f"it is behind the log's beginning {marks.low}"
    return None


def checkpoint_of(value: bytes, process_id: str, topic_id: str) -> tuple[Checkpoint, State]:
    """The checkpoint in ``value`` and its state; ``Unusable`` if it is damaged, or not this journal's."""
    try:
        checkpoint = Checkpoint.from_bytes(value)
        return checkpoint, checkpoint.verified(process_id, topic_id)
    except JournalMismatch as exc:
        raise Unusable(exc.message) from exc


def _refuse_damage(found: Located, topic_id: str) -> None:
    damage: SeekpointError | None = found.damage
    if isinstance(damage, NewerFormat):
        raise damage
    if damage is not None:
        raise Unusable(damage.message)
    if found.floor is not None and found.floor.topic_id != topic_id:
        raise Unusable("the floor is of another journal topic")
