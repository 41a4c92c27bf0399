"""Find the base of a recovery: a stored state, and the seek point that belongs to it.

    view ──> the view's pointer pair ──> the checkpoint partition ──> the beginning of the log

Each lookup returns a ``Base`` or raises ``Unusable`` with the reason. ``NewerFormat`` goes to the caller: a base
that a newer Seekpoint wrote is never skipped.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from seekpoint.consumers.checkpoints.checkpoint import (
    FLOOR_KEY,
    Checkpoint,
    CheckpointHead,
    CheckpointReader,
    Floor,
    seek_point,
)
from seekpoint.consumers.checkpoints.checkpoint_index import CheckpointIndex, Located
from seekpoint.consumers.log_reading.lost_ends import refuse_lost
from seekpoint.consumers.recovery.base_search import Base, Search, Unusable
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.errors import (
    JournalMismatch,
    LogDamaged,
    NewerFormat,
    SeekpointError,
    ViewRefused,
    ViewUnavailable,
)
from seekpoint.schemas.log.log_ports import Landmark, LogReader, Watermarks
from seekpoint.schemas.state.process_state import State, new_state

if TYPE_CHECKING:
    from seekpoint.consumers.view.view_store import ViewLookup, ViewMeta, ViewStore

_COMPACTED_RETRIES = 3
_VIEW_PAUSE_S = 5.0
_SHORT_LOG, _FEW_CHECKPOINTS = 20_000, 2_000
"""Reading so many journal offsets and checkpoint positions takes less time than loading a Redis client."""
_LOAD_DELAY_S = 1.0


BaseLookup = Callable[[Search, Watermarks], Base]


_CLIENT = "redis"
"""The library of the view's client. A view that is not opened yet opens quickly if another part has loaded it."""


class BaseFinder:
    """Finds bases in the view and in the checkpoints of a log. Thread safe; blocks."""

    def __init__(self, log: LogReader, view: ViewStore | None, checkpoints: CheckpointReader | None) -> None:
        self._log = log
        self._view = view
        self.open_view: Callable[[], ViewStore] | None = None
        """Opens the view, where it is not given: a recovery that does not use the view starts faster."""
        self._opening = threading.Lock()
        self.checkpoints = checkpoints
        self.index = None if checkpoints is None else CheckpointIndex(checkpoints, topic_id=lambda: log.topic_id)
        self._view_paused_until = 0.0
        self._view_error = ""
        self._lost: dict[int, set[Landmark]] = {}
        """By partition that was used: see ``_lost_of``."""
        self._compared_views: set[int] = set()
        self.is_starting = False
        """Whether a node is starting: then the view is not queried while its client is not loaded."""
        self._is_loading = False

    @property
    def view(self) -> ViewStore | None:
        """The view, opened at the first use; None if there is none."""
        if self._view is None and self.open_view is not None:
            with self._opening:
                self._view = self._view or self.open_view()
        return self._view

    @property
    def _has_view(self) -> bool:
        return self._view is not None or self.open_view is not None

    def lookups(self, search: Search, marks: Watermarks, tier: Tier | None) -> Iterator[tuple[Tier, BaseLookup]]:
        """Yield the lookups to try, the quickest first; with ``tier`` only those of that tier.

        The tier of checkpoints alone means the newest ones of the topic, whatever the view points to.
        """
        if tier in (None, Tier.VIEW):
            yield Tier.VIEW, self.from_view
        if tier is None:
            yield Tier.CHECKPOINT, self.from_pointer
        if tier in (None, Tier.CHECKPOINT):
            yield Tier.CHECKPOINT, self.from_index
            if marks.low > 0 and search.is_past:
                yield Tier.CHECKPOINT, self.from_older

    # --- the view -------------------------------------------------------------------------------------------------
    def from_view(self, search: Search, marks: Watermarks) -> Base:
        """Return the view's state. ``query_view`` must have been called before ``marks`` were read."""
        found = self._lookup(search)
        meta, problem = found.meta, self.view_problem(search.partition, found.meta, marks)
        if meta is None or meta.applied is None or problem is not None:
            raise Unusable(problem or "there is none", is_expected=meta is None)
        if found.damage is not None:
            raise Unusable(found.damage)
        if found.state is None and marks.low > 0 and self.has_checkpoint(search.partition, search.key):
            raise Unusable("it lacks a process that has a checkpoint, or had one")
        state = found.state or new_state()
        search.refuse_newer(state)
        return Base(Tier.VIEW, state, meta.applied + 1, (Landmark(meta.applied, meta.leader_epoch),))

    def view_problem(self, partition: int, meta: ViewMeta | None, marks: Watermarks) -> str | None:
        """Return why a view cannot be used; None if it can. Raises ``LogTruncated`` if it stands on a lost entry.

        Compares its newest entry with the log at the first use of the partition, and where it lies beyond the log's
        end; else what is read behind it is enough.
        """
        problem = view_problem(meta, self._log.topic_id, marks)
        if meta is None or meta.applied is None or meta.topic_id != self._log.topic_id:
            return problem
        if problem is not None or partition not in self._compared_views:
            if refuse_lost(self._log, partition, (Landmark(meta.applied, meta.leader_epoch),)):
                return problem or "it stands on entries that the log lost; the loss was accepted"
            self._compared_views.add(partition)
        return problem

    def has_checkpoint(self, partition: int, key: bytes) -> bool:
        """Return whether the process has a checkpoint, or a record that cannot be read in the place of one.

        Of a trimmed log a view cannot prove that a process does not exist: it was made of the checkpoints.
        """
        if self.index is None:
            return False
        found = self.index.find(partition, key)
        return found.head is not None or found.damage is not None

    def query_view(self, search: Search, *, force: bool = False) -> None:
        """Query the view, if there is one, and keep its answer in ``search``. An error becomes a note.

        After an error the view is not queried for five seconds, so that a dead Redis does not cost every call a
        time-out. ``force`` ignores that.
        """
        if not self._has_view or (self.is_starting and not force and self._is_quicker_without(search.partition)):
            return
        if not force and time.monotonic() < self._view_paused_until:
            search.notes.append(self._view_error)
            return
        view = self.view
        assert view is not None
        try:
            search.lookup = view.look_up(search.partition, search.key)
        except (ViewUnavailable, ViewRefused, JournalMismatch) as exc:
            self._view_error = f"view: {exc.message}"
            search.notes.append(self._view_error)
            if not isinstance(exc, JournalMismatch):
                self._view_paused_until = time.monotonic() + _VIEW_PAUSE_S

    def _is_quicker_without(self, partition: int) -> bool:
        """Return whether reading the log takes less time than loading the view's client (140 ms).

        If so, a timer loads the client a moment later, so that it delays no recovery.
        """
        if _CLIENT in sys.modules if self._view is None else self._view.is_loaded:
            return False
        low, high = self._log.watermarks(partition)
        positions = 0 if self.checkpoints is None else self.checkpoints.end(partition)
        if high - low > _SHORT_LOG or positions > _FEW_CHECKPOINTS:
            return False
        if not self._is_loading:
            self._is_loading = True
            timer = threading.Timer(_LOAD_DELAY_S, self._load_view)
            timer.daemon = True
            timer.start()
        return True

    def _load_view(self) -> None:
        if self.view is not None:
            self.view.load_client()

    def _lookup(self, search: Search) -> ViewLookup:
        if not self._has_view:
            raise Unusable("no view is kept", is_expected=True)
        if search.lookup is None:
            reason = search.notes[0].partition(": ")[2] if search.notes else "the view was not queried"
            raise Unusable(reason, is_expected=True)
        return search.lookup

    # --- checkpoints ----------------------------------------------------------------------------------------------
    def from_pointer(self, search: Search, marks: Watermarks) -> Base:
        """Return the checkpoint that the view points to, with the floor of the same transaction and no other (P7)."""
        if self.checkpoints is None or search.lookup is None or search.lookup.pointer is None:
            raise Unusable("no pointer to a checkpoint", is_expected=True)
        pointer = search.lookup.pointer
        value = self.checkpoints.at(search.partition, pointer.position, search.key)
        if value is None:
            raise Unusable("the checkpoint that the view points to was compacted away", is_expected=True)
        checkpoint, state = checkpoint_of(value, search.process_id, self._log.topic_id)
        start = seek_point(checkpoint.offset, pointer.floor)
        return self._checkpoint_base(search, marks, checkpoint, state, start, None)

    def from_index(self, search: Search, marks: Watermarks) -> Base:
        """Return the newest checkpoint of the partition with its newest floor; without a checkpoint, the floor (P7)."""
        if self.index is None:
            raise Unusable("no checkpoints are kept", is_expected=True)
        return self.from_located(search, marks, self.index.find(search.partition, search.key))

    def from_located(self, search: Search, marks: Watermarks, found: Located, value: bytes | None = None) -> Base:
        """Return the base that the index located. ``value`` is the checkpoint's record if it was read already."""
        assert self.index is not None
        for _ in range(_COMPACTED_RETRIES):
            if found.floor is not None and found.floor.landmark in self._lost_of(search.partition):
                found = replace(found, floor=None)
            base = self._located_base(search, marks, found, value)
            if base is not None:
                return base
            found = self.index.find(search.partition, search.key)  # a newer checkpoint replaced it
        raise Unusable("checkpoints are compacted away faster than they are read")

    def from_older(self, search: Search, marks: Watermarks) -> Base:
        """Return the newest checkpoint before the requested point that compaction left.

        Reads the whole checkpoint partition. Needed only where the beginning of the log was deleted.
        """
        if self.checkpoints is None or self.index is None or not search.is_past:
            raise Unusable("no checkpoints are kept", is_expected=True)
        best: tuple[Checkpoint, State] | None = None
        stop = self.checkpoints.stable_end(search.partition)
        for _, key, value in self.checkpoints.records(search.partition, 0, stop):
            if key == search.key and value is not None:
                try:
                    checkpoint, state = checkpoint_of(value, search.process_id, self._log.topic_id)
                    search.refuse_newer(state)
                except Unusable:
                    continue
                best = checkpoint, state
        if best is None:
            raise Unusable("no checkpoint before that point is left")
        return self._checkpoint_base(search, marks, *best, best[0].offset + 1, None)

    def floor_base(self, partition: int, marks: Watermarks) -> Base | None:
        """Return the base of every process without a checkpoint; None if there is no usable floor."""
        if self.index is None:
            return None
        try:
            found = self.index.find(partition, FLOOR_KEY, settle=True)
            _refuse_damage(found)
            return self._floor_base(partition, marks, replace(found, floor=self.floor(partition)))
        except (Unusable, LogDamaged):
            return None

    def floor(self, partition: int) -> Floor | None:
        """Return the newest floor that can be used. Raises ``LogTruncated``."""
        floor = None if self.index is None else self.index.floor(partition)
        return None if floor is None or floor.landmark in self._lost_of(partition) else floor

    def _lost_of(self, partition: int) -> set[Landmark]:
        """Return those of the newest entries below checkpoints and floor whose loss was accepted.

        Compares all of them with the log at the first use of the partition; later, each base with what was read behind
        it is enough. Raises ``LogTruncated``.
        """
        if partition not in self._lost:
            assert self.index is not None
            self._lost[partition] = refuse_lost(self._log, partition, self.index.landmarks(partition))
        return self._lost[partition]

    def _located_base(self, search: Search, marks: Watermarks, found: Located, value: bytes | None) -> Base | None:
        """Return the base that the index located; None if the checkpoint's record was compacted away."""
        if not found.settled and self._needs_settled(marks, found):
            assert self.index is not None
            found, value = self.index.find(search.partition, search.key, settle=True), None
        _refuse_damage(found)
        if found.head is None:
            return self._floor_base(search.partition, marks, found)
        return self._head_base(search, marks, found.head, found.floor, value)

    def _head_base(
        self, search: Search, marks: Watermarks, head: CheckpointHead, floor: Floor | None, value: bytes | None
    ) -> Base | None:
        assert self.checkpoints is not None
        if value is None:
            value = self.checkpoints.at(search.partition, head.position, search.key)
        if value is None:
            return None
        checkpoint, state = checkpoint_of(value, search.process_id, self._log.topic_id)
        start = seek_point(checkpoint.offset, floor.offset if floor else 0)
        return self._checkpoint_base(search, marks, checkpoint, state, start, floor)

    def _needs_settled(self, marks: Watermarks, found: Located) -> bool:
        """Return whether only a transaction that is still open could help: absence to prove, or a floor in the log."""
        if found.damage is not None or found.empty or found.floor is None:
            return False
        offset = None if found.head is None else found.head.offset
        return found.head is None or seek_point(offset, found.floor.offset) < marks.low

    def _floor_base(self, partition: int, marks: Watermarks, found: Located) -> Base:
        """Return the base of a process without a checkpoint: it has no entry below the floor."""
        floor = found.floor
        if floor is None:
            raise Unusable("no checkpoint of it, and no floor", is_expected=found.empty)
        if not found.settled:
            raise Unusable("an open transaction hides newer checkpoints")
        if floor.offset < marks.low:
            raise Unusable(f"the floor {floor.offset} lies below the log's beginning {marks.low}")
        if floor.offset > marks.high:
            refuse_lost(self._log, partition, (floor.landmark,))
            raise Unusable(f"the floor {floor.offset} lies beyond the log's end {marks.high}: a truncated log")
        return Base(Tier.CHECKPOINT, new_state(), floor.offset, (floor.landmark,))

    def _checkpoint_base(
        self, search: Search, marks: Watermarks, checkpoint: Checkpoint, state: State, start: int, floor: Floor | None
    ) -> Base:
        search.refuse_newer(state)
        if start < marks.low:
            raise Unusable(f"its seek point {start} lies below the log's beginning {marks.low}")
        if checkpoint.offset >= marks.high or start > marks.high:
            ends = (checkpoint.landmark, Landmark(start - 1, -1 if floor is None else floor.leader_epoch))
            refuse_lost(self._log, search.partition, ends)
            raise Unusable(f"it lies beyond the log's end {marks.high}: a truncated log")
        landmarks = [checkpoint.landmark]
        if floor is not None:
            landmarks.append(floor.landmark)
        unknown = floor is None and start > checkpoint.offset + 1
        return Base(Tier.CHECKPOINT, state, start, tuple(landmarks), unknown)


def view_problem(meta: ViewMeta | None, topic_id: str, marks: Watermarks) -> str | None:
    """Return why a view cannot be used; None if it can."""
    if meta is None:
        return "there is none"
    if meta.topic_id != topic_id:
        return "it is of another journal topic"
    if meta.applied is None:
        return "it is being rebuilt"
    if meta.applied >= marks.high:
        return f"it lies beyond the log's end {marks.high}: a truncated log"
    if meta.applied + 1 < marks.low:
        return f"it is behind the log's beginning {marks.low}"
    return None


def checkpoint_of(value: bytes, process_id: str, topic_id: str) -> tuple[Checkpoint, State]:
    """Return the checkpoint in ``value`` and its state. Raises ``Unusable`` if it is damaged or another journal's."""
    try:
        checkpoint = Checkpoint.from_bytes(value)
        return checkpoint, checkpoint.verified(process_id, topic_id)
    except JournalMismatch as exc:
        raise Unusable(exc.message, is_damage=True) from exc


def _refuse_damage(found: Located) -> None:
    damage: SeekpointError | None = found.damage
    if isinstance(damage, NewerFormat):
        raise damage
    if damage is not None:
        raise Unusable(f"{damage.message} (position {damage.facts.get('position')})", is_damage=True)
