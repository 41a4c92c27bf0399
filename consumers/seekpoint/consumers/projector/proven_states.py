"""The states that a projection may fold on and save: those that the evidence confirms, and recomputed ones (P8)."""

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
from seekpoint.schemas.state.process_state import State

_logger = logging.getLogger("seekpoint.consumers")


class ProvenStates:
    """Verifies the states of one partition, from one ``begin`` to the next. For one thread."""

    def __init__(self, source: ProjectionSource, partition: int, cache: StateCache, saved: CheckpointInventory) -> None:
        self.unproven: set[bytes] = set()
        """Processes whose only state is in the view: their checkpoint is damaged and the log was trimmed."""
        self.lost: set[bytes] = set()
        """Processes of which not even the view has a state. Their entries are passed over."""
        self._source = source
        self._partition = partition
        self._cache = cache
        self._evidence = ViewEvidence(source, partition, saved)

    def begin(self, token: str, position: int) -> dict[bytes, int]:
        """Start from a view at ``position``; return the offset of each process with an entry in [floor, ``position``).

        The log is folded from the floor on, whatever the view has of these processes. Raises ``Overtaken``.
        """
        self._cache.begin(token, position)
        offsets: dict[bytes, int] = {}
        for key, state in self._evidence.unsaved(position):
            offsets[key] = state.offset
            if key not in self._cache:
                self._cache.digests[key] = digest_of(state)
        return offsets

    def verify(self, keys: Sequence[bytes], loaded: Loaded) -> tuple[dict[bytes, State | None], list[Change]]:
        """Return the proven states of ``keys`` as of ``loaded``, and the corrections to write to the view first.

        A state of the view is proven if it has the expected digest. Any other is recomputed. Raises ``Overtaken``.
        """
        proven: dict[bytes, State | None] = {}
        for key in keys:
            state = loaded.states.get(key)
            expected = self._cache.digests.get(key) or self._evidence.digest(key)
            if state is None and self._evidence.is_damaged(key):
                continue  # the view has no state of it because its checkpoint cannot be read
            if key not in loaded.damaged and expected == (None if state is None else digest_of(state)):
                proven[key] = state
        wrong = [key for key in keys if key not in proven]
        if not wrong:
            return proven, []
        recomputed = self._recomputed(wrong, loaded)
        changes = [Change(key=key, state=state, whole=True) for key, state in recomputed.items() if state is not None]
        return proven | recomputed, changes

    def remember(self, key: bytes, state: State) -> None:
        """Cache a state that was folded on a proven one, and the digests of evicted states that are not saved.

        An unproven state is not cached: the cache outlives a preparation, and all its states count as proven.
        """
        if key in self.unproven:
            return
        for other, evicted in self._cache.put(key, state):
            if evicted.offset > self._evidence.saved_offset(other):
                self._cache.digests[other] = digest_of(evicted)

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """Process that ``save`` is in the log."""
        self._evidence.committed(save, positions)
        for key, checkpoint in save.checkpoints.items():
            if self._cache.digests.get(key) == checkpoint.digest:
                del self._cache.digests[key]

    def _recomputed(self, keys: Sequence[bytes], loaded: Loaded) -> dict[bytes, State | None]:
        assert loaded.applied is not None
        position = loaded.applied + 1
        recomputed = dict(self._evidence.states(keys, position, self._cache.digests))
        for key in keys:
            found = loaded.states.get(key)
            if key not in recomputed:
                if found is None:
                    self._note_lost(key)
                else:
                    recomputed[key] = self._unproven(key, found)
            elif key in loaded.damaged or _differ(found, recomputed[key], position):
                self._report_damage(key, loaded.damaged.get(key, "it differs from checkpoint and log"))
        return recomputed

    def _note_lost(self, key: bytes) -> None:
        self.lost.add(key)
        text = (
            "partition %d: checkpoint and view of %r are damaged and the log was trimmed: its entries are passed over"
        )
        _logger.error(text, self._partition, key.decode(errors="replace"))

    def _unproven(self, key: bytes, found: State) -> State:
        """Return the view's state, the only one that is left of the process. It is never saved."""
        partition, process_id = self._partition, key.decode(errors="replace")
        if key not in self.unproven:
            self.unproven.add(key)
            text = "partition %d: the checkpoint of %r is damaged and the log was trimmed: only the view has a state"
            _logger.error(
                text + " of it, which proves nothing. It is not saved, and the floor stays", partition, process_id
            )
        return found

    def _report_damage(self, key: bytes, why: str) -> None:
        _logger.error("partition %d: the view of %r is damaged and is corrected: %s", self._partition, key, why)
        self._source.on_damage(self._partition, key, why)


def _differ(found: State | None, proven: State | None, position: int) -> bool:
    """Return whether the two states have different histories. The results of users' folds are not compared.

    A state at or above ``position`` comes from a newer checkpoint: the view lost its last writes, and is not damaged.
    """
    if any(one is not None and one.offset >= position for one in (found, proven)):
        return False
    if found is None or proven is None:
        return found is not proven
    return (found.hash, found.offset) != (proven.hash, proven.offset)
