"""Bases of many processes of one partition at once, so that one scan from the lowest of their seek points is enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from seekpoint.consumers.checkpoints.checkpoint_index import Located
from seekpoint.consumers.recovery.base_finder import Base, BaseFinder, Search, Unusable, view_problem
from seekpoint.consumers.recovery.fold_renewal import fold_reason
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.view_store import ViewMeta
from seekpoint.schemas.errors import JournalMismatch, LogDamaged, TierUnavailable, ViewRefused, ViewUnavailable
from seekpoint.schemas.log.log_ports import Landmark, LogReader, Watermarks
from seekpoint.schemas.state.state import State, new_state

__all__ = ["Bulk"]

_LOAD_KEYS = 500
_POINT_READS_MAX = 16


class Bulk:
    """Of these ``keys`` of a partition, or of all there are (None). ``look`` first, then the end of the log, then
    ``settle``."""

    def __init__(self, log: LogReader, bases: BaseFinder, partition: int, keys: Sequence[bytes] | None) -> None:
        self._log = log
        self._from = bases
        self._partition = partition
        self._keys = keys
        self._meta: ViewMeta | None = None
        self._loaded: dict[bytes, State] | None = None
        self._why_not = "it was rebuilt meanwhile"
        self._applied = -1
        self._others = Tier.SCAN
        self.bases: dict[bytes, Base] = {}
        self.notes: list[str] = []

    def tier_of(self, key: bytes) -> Tier:
        """The tier a process was recovered by; one that was only met in the log began where all others did."""
        base = self.bases.get(key)
        return self._others if base is None else base.tier

    @property
    def landmarks(self) -> dict[Landmark, None]:
        """The records that the bases stand on: the highest of each leader epoch, which proves the others."""
        highest: dict[int, Landmark] = {}
        for base in self.bases.values():
            for landmark in base.landmarks:
                highest[landmark.leader_epoch] = max(landmark, highest.get(landmark.leader_epoch, landmark))
        return dict.fromkeys(highest.values())

    def look(self, tier: Tier | None) -> None:
        """Ask the view, if there is one and it may be used."""
        view = self._from.view
        if view is None or tier in (Tier.CHECKPOINT, Tier.SCAN):
            return
        try:
            self._meta = meta = view.meta(self._partition)
            if meta is not None and meta.applied is not None:
                self._applied = meta.applied
                self._load(meta)
        except (ViewUnavailable, ViewRefused, JournalMismatch) as exc:
            self._meta = None
            self.notes.append(f"view: {exc.message}")

    def _load(self, meta: ViewMeta) -> None:
        view = self._from.view
        assert view is not None
        wanted: Sequence[bytes] | None = self._keys
        if wanted is None:
            there = view.offsets_from(self._partition, meta.token, 0)
            wanted = None if there is None else list(there)
        if wanted is None:
            return
        states: dict[bytes, State] = {}
        keys = iter(wanted)
        while chunk := list(islice(keys, _LOAD_KEYS)):
            loaded = view.load(self._partition, meta.token, chunk)
            if loaded is None:  # it was rebuilt meanwhile
                return
            if loaded.damaged:
                self._why_not = next(iter(loaded.damaged.values()))
                return
            states.update(loaded.states)
        self._loaded = states

    def settle(self, marks: Watermarks, tier: Tier | None) -> int:
        """Choose the bases; where the scan begins. ``TierUnavailable`` if that is not by ``tier``."""
        reason = "no such tier"
        if tier in (None, Tier.VIEW):
            reason = self._by_view(marks)
            if not reason:
                self._renew(marks, tier)
                return min((base.seek_point for base in self.bases.values()), default=self._applied + 1)
            if tier is None and self._meta is not None:
                self.notes.append(f"view: {reason}")
        if tier in (None, Tier.CHECKPOINT):
            try:
                reason = self._by_checkpoints(marks, tier)
            except LogDamaged as exc:
                reason = exc.message
                self.notes.append(f"checkpoint: {reason}")
            if not reason:
                return self._start
        if tier in (Tier.VIEW, Tier.CHECKPOINT):
            raise TierUnavailable(f"no such way to recover ({tier}: {reason})", tier=str(tier))
        self.bases = {} if self._keys is None else {key: _scan() for key in self._keys}
        return 0

    def _by_view(self, marks: Watermarks) -> str:
        """Why not, or nothing."""
        if self._from.view is None:
            return "no view is kept"
        problem = view_problem(self._meta, self._log.topic_id, marks)
        if problem is not None or self._loaded is None or self._meta is None:
            return problem or self._why_not
        landmarks = (Landmark(self._applied, self._meta.leader_epoch),)
        keys = self._loaded if self._keys is None else self._keys
        self.bases = {
            key: Base(Tier.VIEW, self._loaded.get(key) or new_state(), self._applied + 1, landmarks) for key in keys
        }
        self._others = Tier.VIEW
        return ""

    def _renew(self, marks: Watermarks, tier: Tier | None) -> None:
        """Scan for those whose folds are behind, while the log is whole; a tier that is forced stays what it is."""
        for key, base in list(self.bases.items()):
            stale = fold_reason(base.state)
            if stale is None:
                continue
            self.notes.append(f"{base.tier}: {stale}")
            if tier is None and not marks.low:
                self.bases[key] = _scan()

    def _by_checkpoints(self, marks: Watermarks, tier: Tier | None) -> str:
        """Why not, or nothing. Without a forced tier a process whose checkpoint is no use is scanned for."""
        index = self._from.index
        if index is None:
            return "no checkpoints are kept"
        keys = None if self._keys is None else list(self._keys)
        try:
            floor = index.floor(self._partition) if keys is None else None
        except JournalMismatch as exc:
            return exc.message
        if keys is None and (floor is None or floor.offset < marks.low):
            return "there is no floor inside the log"
        found = index.find_many(self._partition, keys)
        if any(one.saved is None for one in found.values()):
            found = index.find_many(self._partition, keys, settle=True)
        values = self._values(found)
        for key, one in found.items():
            try:
                self.bases[key] = self._base(key, one, values, marks)
            except Unusable as exc:
                if tier is not None:
                    return exc.reason
                if not exc.usual:
                    self._log.check()
                    self.notes.append(f"checkpoint: {exc.reason}")
                self.bases[key] = _scan()
        if floor is not None:
            self._others = Tier.CHECKPOINT
        self._renew(marks, tier)
        starts = [base.seek_point for base in self.bases.values()] + ([floor.offset] if floor is not None else [])
        self._start = min(starts, default=0)
        return ""

    def _base(self, key: bytes, located: Located, values: dict[bytes, bytes], marks: Watermarks) -> Base:
        search = Search(key.decode(), key, self._partition)
        return self._from.from_located(search, marks, located, values.get(key))

    def _values(self, found: dict[bytes, Located]) -> dict[bytes, bytes]:
        """The records of many checkpoints by one read of the partition; of a few, nothing: they are read one by one."""
        places = {one.saved.position: key for key, one in found.items() if one.saved is not None}
        if len(places) <= _POINT_READS_MAX:
            return {}
        reader = self._from.checkpoints
        assert reader is not None
        records = reader.records(self._partition, min(places), max(places) + 1)
        return {key: value for position, key, value in records if value is not None and places.get(position) == key}


def _scan() -> Base:
    return Base(Tier.SCAN, new_state(), 0)
