"""The states a projection may fold on and save: those on which view and evidence agree, and those made anew (P8)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from seekpoint.consumers.checkpoints.checkpoint import digest_of
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.projector.view_evidence import ViewEvidence
from seekpoint.consumers.view.view_store import Change, Loaded
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.state.process_state import State

__all__ = ["NothingProven", "ProvenStates"]

_logger = logging.getLogger("seekpoint.consumers")


class NothingProven(JournalGap):
    """Nothing whole is left of a process: no newer floor stands for it, so to look again does not help."""


class ProvenStates:
    """What is proven of one partition's states, from one ``begin`` to the next. One thread's."""

    def __init__(self, source: ProjectionSource, partition: int, cache: StateCache, saved: CheckpointInventory) -> None:
        self.unproven: set[bytes] = set()
        """Processes of which only the view has a state: their checkpoint is damaged and the log was trimmed."""
        self._source = source
        self._partition = partition
        self._cache = cache
        self._evidence = ViewEvidence(source, partition, saved)

    def begin(self, token: str, position: int) -> dict[bytes, int]:
        """Start from a view at ``position``; the offsets of all processes with an entry between the floor and there.

        What is unsaved is the log's to say: it is folded from the floor on, whatever the view has of it. Raises
        ``Overtaken``.
        """
        self._cache.begin(token, position)
        offsets: dict[bytes, int] = {}
        for key, state in self._evidence.unsaved(position):
            offsets[key] = state.offset
            if key not in self._cache:
                self._cache.digests[key] = digest_of(state)
        return offsets

    def take(self, keys: Sequence[bytes], loaded: Loaded) -> tuple[dict[bytes, State | None], list[Change]]:
        """The states of ``keys`` as of what ``loaded`` is as of, and what the view has to be told of them first.

        The view's state is taken where its digest is the proven one; else it is made anew. Raises ``Overtaken``.
        """
        proven: dict[bytes, State | None] = {}
        for key in keys:
            state = loaded.states.get(key)
            expected = self._cache.digests.get(key) or self._evidence.digest(key)
            if key not in loaded.damaged and expected == (None if state is None else digest_of(state)):
                proven[key] = state
        wrong = [key for key in keys if key not in proven]
        if not wrong:
            return proven, []
        anew = self._made_anew(wrong, loaded)
        changes = [Change(key=key, state=state, whole=True) for key, state in anew.items() if state is not None]
        return proven | anew, changes

    def keep(self, key: bytes, state: State) -> None:
        """Remember what was folded on a proven state; of those that have to go for it, the digest if none is saved.

        What nothing proves is not remembered: the memory outlives a preparation, and all in it counts as proven.
        """
        if key in self.unproven:
            return
        for other, evicted in self._cache.put(key, state):
            if evicted.offset > self._evidence.saved_offset(other):
                self._cache.digests[other] = digest_of(evicted)

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """Take in that ``save`` is in the log."""
        self._evidence.committed(save, positions)
        for key, checkpoint in save.checkpoints.items():
            if self._cache.digests.get(key) == checkpoint.digest:
                del self._cache.digests[key]

    def _made_anew(self, keys: Sequence[bytes], loaded: Loaded) -> dict[bytes, State | None]:
        assert loaded.applied is not None
        position = loaded.applied + 1
        anew = dict(self._evidence.states(keys, position, self._cache.digests))
        for key in keys:
            found = loaded.states.get(key)
            if key not in anew:
                anew[key] = self._unproven(key, found)
            elif key in loaded.damaged or _differ(found, anew[key], position):
                self._tell(key, loaded.damaged.get(key, "it is not what checkpoint and log say"))
        return anew

    def _unproven(self, key: bytes, found: State | None) -> State:
        """What the view has, which is never saved: nothing else is left of the process."""
        partition, process_id = self._partition, key.decode(errors="replace")
        if found is None:
            text = "checkpoint and view are damaged, and the beginning of the log is gone"
            raise NothingProven(text, partition=partition, process_id=process_id)
        if key not in self.unproven:
            self.unproven.add(key)
            text = "partition %d: the checkpoint of %r is damaged and the log was trimmed: only the view has a state"
            _logger.error(
                text + " of it, which proves nothing. It is not saved, and the floor stays", partition, process_id
            )
        return found

    def _tell(self, key: bytes, why: str) -> None:
        _logger.error("partition %d: the view of %r is damaged and made anew: %s", self._partition, key, why)
        self._source.on_damage(self._partition, key, why)


def _differ(found: State | None, proven: State | None, position: int) -> bool:
    """Whether the two are of another history. What users' folds made of it is not compared: that is no damage.

    Nor is a state that is ahead of the view, which comes from a checkpoint: the view lost its last writes.
    """
    if any(one is not None and one.offset >= position for one in (found, proven)):
        return False
    if found is None or proven is None:
        return found is not proven
    return (found.hash, found.offset) != (proven.hash, proven.offset)
