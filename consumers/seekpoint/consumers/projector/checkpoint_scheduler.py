"""The checkpoints of one partition: which are due, the floor that is true with them, and what came of it (P4 to P6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seekpoint.consumers.checkpoints.cadence import Dirty
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, Floor
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.checkpoints.dirty_set import DirtySet
from seekpoint.consumers.log_reading.leader_epochs import Epochs
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas.state.state import State

__all__ = ["CheckpointScheduler"]

_NEVER = 1 << 63


class CheckpointScheduler:
    """What a projection knows of its partition's checkpoints, from one ``begin`` to the next. One thread's."""

    def __init__(self, source: ProjectionSource, partition: int) -> None:
        self.unsaved = DirtySet(source.cadence)
        self._source = source
        self._partition = partition
        self._saved: CheckpointInventory | None = None
        self._wanted: dict[bytes, int] = {}
        self.dropping: set[bytes] = set()
        """Finished processes whose next checkpoint is their gravestone."""
        self.dropped: set[bytes] = set()
        """Those whose gravestone is saved: the view may drop their content."""

    def begin(self, saved: CheckpointInventory, offsets: Mapping[bytes, int]) -> None:
        """``saved`` is what the log has, ``offsets`` what the view has at or above its floor."""
        now_s, known, floor = self._source.clock(), self.unsaved.by_key, saved.floor
        dirty: dict[bytes, Dirty] = {}
        for key, offset in offsets.items():
            if offset > saved.offset(key):
                since_s = known[key].since_s if key in known else now_s
                dirty[key] = Dirty(max(saved.offset(key) + 1, floor), offset, since_s)
        for key in saved.damaged:
            dirty[key] = Dirty(floor, offsets.get(key, -1), now_s, is_urgent=True)
        self.unsaved = DirtySet(self._source.cadence, dirty)
        self._saved = saved
        self.dropping, self.dropped = set(), set()

    def note(self, change: Change, first: int | None, read_bytes: int, *, is_urgent: bool) -> None:
        """P4: what the view now has and no checkpoint has. ``first`` is None where nothing of it was new."""
        assert self._saved is not None
        state, offset = change.state, self._saved.offset(change.key)
        if first is None or state.offset <= offset:
            return
        state_bytes = state.content_bytes + state.mailbox_bytes
        first = max(first, offset + 1)
        self.unsaved.note(change.key, first, state.offset, read_bytes, state_bytes, is_urgent, self._source.clock())

    def request(self, wanted: Mapping[bytes, int]) -> None:
        """Have these saved as of at least that journal offset."""
        self._wanted.update(wanted)

    def due(self, position: int, *, force: bool) -> list[bytes]:
        """The oldest first: they hold the floor back."""
        self._wanted = {key: end for key, end in self._wanted.items() if key in self.unsaved or end > position}
        if force:
            return [*self.unsaved.oldest(), *self.dropping]
        # Not before what is in the log by then is projected: a checkpoint too early would have to be written twice.
        asked = [key for key, end in self._wanted.items() if end <= position]
        return [*self.unsaved.due(self._source.clock(), asked), *self.dropping]

    def save(self, states: Mapping[bytes, State], due: Sequence[bytes], position: int, epochs: Epochs) -> Save:
        """The checkpoints of ``states``, and the floor that is true once they are written (P5)."""
        saved, topic_id = self._saved, self._source.topic_id
        assert saved is not None
        for key in set(due) - states.keys():  # damaged, and the view does not have it either
            self.dropping.discard(key)
            self.unsaved.forget(key)
        states = {key: state.without_content() if key in self.dropping else state for key, state in states.items()}
        newer = {
            key: state for key, state in states.items() if state.offset > saved.offset(key) or key in self.dropping
        }
        left_out = self.unsaved.first_besides(newer.keys())
        offset = max(saved.floor, position if left_out is None else min(left_out, position))
        low = self._source.log.watermarks(self._partition).low if self.dropping else 0
        of = {
            state.offset: epochs.of(state.offset) if state.offset >= low else -1
            for state in sorted(newer.values(), key=_offset)
        }
        floor = Floor(
            offset=offset,
            leader_epoch=self._epoch_below(offset, epochs),
            topic_id=topic_id,
            since=saved.since(offset, newer.keys()),
        )
        checkpoints = {
            key: Checkpoint.of(key.decode(), self._partition, state, topic_id, of[state.offset])
            for key, state in newer.items()
        }
        return Save(partition=self._partition, checkpoints=checkpoints, floor=floor, next_offset=position)

    def _epoch_below(self, floor: int, epochs: Epochs) -> int:
        """Of the record that a floor's landmark is; of a floor that stays, the published one: it may be trimmed."""
        published = None if self._saved is None else self._saved.published
        if published is not None and published.offset == floor and published.leader_epoch >= 0:
            return published.leader_epoch
        return epochs.of(floor - 1)

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """P6: ``save`` is in the log. What was folded since stays dirty."""
        assert self._saved is not None
        self._saved.committed(save.floor, save.checkpoints, positions)
        for key, checkpoint in save.checkpoints.items():
            self.unsaved.saved(key, checkpoint.offset, self._source.clock())
            if self._wanted.get(key, _NEVER) <= save.next_offset:
                del self._wanted[key]
            if key in self.dropping:
                self.dropping.discard(key)
                self.dropped.add(key)


def _offset(state: State) -> int:
    return state.offset
