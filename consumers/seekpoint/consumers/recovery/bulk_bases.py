"""Bases for many processes of one partition, so that one scan from the lowest of their seek points is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from seekpoint.consumers.checkpoints.checkpoint import Floor
from seekpoint.consumers.checkpoints.checkpoint_index import Located
from seekpoint.consumers.log_reading.lost_ends import highest
from seekpoint.consumers.recovery.base_finder import BaseFinder
from seekpoint.consumers.recovery.base_search import Base, Search, Unusable
from seekpoint.consumers.recovery.fold_renewal import fold_reason
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.view_store import ViewMeta
from seekpoint.schemas.errors import (
    JournalMismatch,
    LogDamaged,
    NewerFormat,
    TierUnavailable,
    ViewRefused,
    ViewUnavailable,
)
from seekpoint.schemas.log.log_ports import Landmark, LogReader, Watermarks
from seekpoint.schemas.state.process_state import State, new_state

_LOAD_KEYS = 500
_POINT_READS_MAX = 16


class BulkBases:
    """The bases of the processes ``keys`` of a partition (None: of all processes there).

    Call ``query_view`` first, then ask where the log ends, then ``choose``.
    """

    def __init__(self, log: LogReader, base_finder: BaseFinder, partition: int, keys: Sequence[bytes] | None) -> None:
        self.partition = partition
        self.keys = keys
        self.by_key: dict[bytes, Base] = {}
        self.notes: list[str] = []
        self.unusable: dict[bytes, str] = {}
        """By process: why nothing leads to its state. The others of the partition are recovered without it."""
        self.newer: NewerFormat | None = None
        """What a newer Seekpoint wrote of one of these."""
        self._log = log
        self._base_finder = base_finder
        self._meta: ViewMeta | None = None
        self._loaded: dict[bytes, State] | None = None
        self._view_reason = "it was rebuilt meanwhile"
        self._applied = -1
        self._floor: Floor | None = None
        """The floor at which the scan starts for those without a checkpoint."""
        self._default_tier = Tier.SCAN

    def tier_of(self, key: bytes) -> Tier:
        """Return the tier that a process is recovered by. A process without a base of its own has the common tier."""
        base = self.by_key.get(key)
        return self._default_tier if base is None else base.tier

    @property
    def landmarks(self) -> list[Landmark]:
        """The records that the bases depend on: the highest of each leader epoch."""
        stands_on = chain.from_iterable(base.landmarks for base in self.by_key.values())
        return highest(chain(stands_on, () if self._floor is None else (self._floor.landmark,)))

    def query_view(self, tier: Tier | None) -> None:
        """Load the states from the view, if there is one and ``tier`` allows it."""
        view = self._base_finder.view
        if view is None or tier in (Tier.CHECKPOINT, Tier.SCAN):
            return
        try:
            self._meta = meta = view.meta(self.partition)
            if meta is not None and meta.applied is not None:
                self._applied = meta.applied
                self._load(meta)
        except (ViewUnavailable, ViewRefused, JournalMismatch) as exc:
            self._meta = None
            self.notes.append(f"view: {exc.message}")

    def _load(self, meta: ViewMeta) -> None:
        view = self._base_finder.view
        assert view is not None
        keys: Sequence[bytes] | None = self.keys
        if keys is None:
            offsets = view.offsets_from(self.partition, meta.token, 0)
            keys = None if offsets is None else list(offsets)
        if keys is None:
            return
        states: dict[bytes, State] = {}
        rest = iter(keys)
        while chunk := list(islice(rest, _LOAD_KEYS)):
            loaded = view.load(self.partition, meta.token, chunk)
            if loaded is None:  # the view was rebuilt meanwhile
                return
            if loaded.damaged:
                self._view_reason = next(iter(loaded.damaged.values()))
                return
            states.update(loaded.states)
        self._loaded = states

    def choose(self, marks: Watermarks, tier: Tier | None) -> int:
        """Choose the bases and return where the scan starts. Raises ``TierUnavailable`` if ``tier`` cannot be used."""
        reason = "no such tier"
        if tier in (None, Tier.VIEW):
            reason = self._choose_view(marks)
            if not reason:
                self._scan_stale_folds(marks, tier)
                return min((base.seek_point for base in self.by_key.values()), default=self._applied + 1)
            if tier is None and self._meta is not None:
                self.notes.append(f"view: {reason}")
        if tier in (None, Tier.CHECKPOINT):
            try:
                reason = self._choose_checkpoints(marks, tier)
            except LogDamaged as exc:
                reason = exc.message
                self.notes.append(f"checkpoint: {reason}")
            if not reason:
                return self._start
        if tier in (Tier.VIEW, Tier.CHECKPOINT):
            raise TierUnavailable(f"no such way to recover ({tier}: {reason})", tier=str(tier))
        self.by_key = {} if self.keys is None else {key: _scan() for key in self.keys}
        return 0

    def _choose_view(self, marks: Watermarks) -> str:
        """Take all bases from the view; return why that is not possible, or an empty text."""
        if self._base_finder.view is None:
            return "no view is kept"
        problem = self._base_finder.view_problem(self.partition, self._meta, marks)
        if problem is not None or self._loaded is None or self._meta is None:
            return problem or self._view_reason
        landmarks = (Landmark(self._applied, self._meta.leader_epoch),)
        loaded = self._loaded
        missing = self._missing(loaded, marks) if marks.low > 0 else {}
        keys = [key for key in (loaded if self.keys is None else self.keys) if key not in self.unusable]
        self.by_key = {
            key: Base(Tier.VIEW, loaded.get(key) or new_state(), self._applied + 1, landmarks) for key in keys
        } | missing
        self._default_tier = Tier.VIEW
        return ""

    def _missing(self, loaded: Mapping[bytes, State], marks: Watermarks) -> dict[bytes, Base]:
        """Return the bases of the processes that have a checkpoint and that the view of a trimmed log lacks.

        It lacks those whose checkpoint could not be read when it was made.
        """
        index, bases = self._base_finder.index, dict[bytes, Base]()
        keys = None if self.keys is None else [key for key in self.keys if key not in loaded]
        if index is None or keys == []:
            return bases
        for key, located in index.find_many(self.partition, keys).items():
            if key in loaded or (located.head is None and located.damage is None):
                continue
            try:
                bases[key] = self._base_finder.from_located(Search(key.decode(), key, self.partition), marks, located)
            except (Unusable, NewerFormat) as exc:
                self._note_unusable(key, exc)
        return bases

    def _note_unusable(self, key: bytes, why: Exception) -> None:
        reason = why.reason if isinstance(why, Unusable) else str(why)
        self.unusable[key] = reason
        self.newer = why if isinstance(why, NewerFormat) else self.newer
        self.notes.append(f"{key.decode()}: nothing is left that it could be recovered from: {reason}")

    def _scan_stale_folds(self, marks: Watermarks, tier: Tier | None) -> None:
        """Scan for the processes whose folds are out of date, if no tier is forced and the log is complete."""
        for key, base in list(self.by_key.items()):
            stale = fold_reason(base.state)
            if stale is None:
                continue
            self.notes.append(f"{base.tier}: {stale}")
            if tier is None and not marks.low:
                self.by_key[key] = _scan()

    def _choose_checkpoints(self, marks: Watermarks, tier: Tier | None) -> str:
        """Take the bases from checkpoints; return why that is not possible, or an empty text.

        Unless ``tier`` is forced, a process whose checkpoint cannot be used is scanned for.
        """
        index = self._base_finder.index
        if index is None:
            return "no checkpoints are kept"
        keys = None if self.keys is None else list(self.keys)
        self._floor = floor = self._base_finder.floor(self.partition) if keys is None else None
        if keys is None and (floor is None or floor.offset < marks.low):
            return "there is no floor inside the log"
        found = index.find_many(self.partition, keys)
        if any(one.head is None for one in found.values()):
            found = index.find_many(self.partition, keys, settle=True)
        values = self._read_many(found)
        for key, located in found.items():
            try:
                search = Search(key.decode(), key, self.partition)
                self.by_key[key] = self._base_finder.from_located(search, marks, located, values.get(key))
            except NewerFormat as exc:
                self._note_unusable(key, exc)
            except Unusable as exc:
                if exc.is_damage and marks.low > 0:
                    self._note_unusable(key, exc)
                    continue
                if tier is not None:
                    return exc.reason
                if not exc.is_expected:
                    self._log.check()
                    self.notes.append(f"checkpoint: {exc.reason}")
                self.by_key[key] = _scan()
        if floor is not None:
            self._default_tier = Tier.CHECKPOINT
        self._scan_stale_folds(marks, tier)
        starts = [base.seek_point for base in self.by_key.values()] + ([floor.offset] if floor is not None else [])
        self._start = min(starts, default=0)
        return ""

    def _read_many(self, found: dict[bytes, Located]) -> dict[bytes, bytes]:
        """Return the records of many checkpoints with one read of the partition. A few are read one by one later."""
        positions = {one.head.position: key for key, one in found.items() if one.head is not None}
        if len(positions) <= _POINT_READS_MAX:
            return {}
        reader = self._base_finder.checkpoints
        assert reader is not None
        records = reader.records(self.partition, min(positions), max(positions) + 1)
        return {key: value for position, key, value in records if value is not None and positions.get(position) == key}


def _scan() -> Base:
    return Base(Tier.SCAN, new_state(), 0)
