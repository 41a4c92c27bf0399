"""Schedule the checkpoints of one partition: which are due, and the floor that is true with them (P4 to P6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from seekpoint.consumers.checkpoints.cadence import Cadence, Dirty
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, Floor
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.checkpoints.dirty_set import DirtySet
from seekpoint.consumers.log_reading.leader_epochs import LeaderEpochs
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.state.process_state import State

_NEVER = 1 << 63


class CheckpointScheduler:
    """Tracks which processes of a partition need a checkpoint, from one ``begin`` to the next. For one thread."""

    def __init__(
        self, log: LogReader, partition: int, topic_id: str, cadence: Cadence, clock: Callable[[], float]
    ) -> None:
        self.dirty_set = DirtySet(cadence)
        self._log = log
        self._partition = partition
        self._topic_id = topic_id
        self._cadence = cadence
        self._clock = clock
        self._inventory: CheckpointInventory | None = None
        self._requested: dict[bytes, int] = {}
        """Requested checkpoints by key, with the journal offset that they must reach."""
        self.dropping: set[bytes] = set()
        """Finished processes whose next checkpoint is their gravestone."""
        self.dropped: set[bytes] = set()
        """Finished processes whose gravestone is written: the view may drop their content."""

    def begin(self, inventory: CheckpointInventory, offsets: Mapping[bytes, int]) -> None:
        """Start from the written checkpoints and the offsets of the view's states at or above the floor."""
        now_s, known, floor = self._clock(), self.dirty_set.by_key, inventory.floor
        dirty: dict[bytes, Dirty] = {}
        for key, offset in offsets.items():
            if offset > inventory.offset(key):
                since_s = known[key].since_s if key in known else now_s
                dirty[key] = Dirty(max(inventory.offset(key) + 1, floor), offset, since_s)
        for key in inventory.damaged:
            dirty[key] = Dirty(floor, offsets.get(key, -1), now_s, is_urgent=True)
        self.dirty_set = DirtySet(self._cadence, dirty)
        self._inventory = inventory
        self.dropping, self.dropped = set(), set()

    def mark_dirty(self, key: bytes, state: State, first: int | None, read_bytes: int, *, is_urgent: bool) -> None:
        """Note that the view has ``state`` and no checkpoint has it (P4). ``first`` is its first new entry, if any."""
        assert self._inventory is not None
        offset = self._inventory.offset(key)
        if first is None or state.offset <= offset:
            return
        state_bytes = state.content_bytes + state.mailbox_bytes
        first = max(first, offset + 1)
        self.dirty_set.mark(key, first, state.offset, read_bytes, state_bytes, is_urgent, self._clock())

    def request(self, offsets: Mapping[bytes, int]) -> None:
        """Request checkpoints of these processes as of at least these journal offsets."""
        self._requested.update(offsets)

    def due(self, position: int, *, force: bool) -> list[bytes]:
        """Return the keys whose checkpoints are due, the oldest first: they hold the floor back."""
        self._requested = {key: end for key, end in self._requested.items() if key in self.dirty_set or end > position}
        if force:
            return [*self.dirty_set.oldest(), *self.dropping]
        # A requested checkpoint waits until the log of that moment is projected: earlier, it would be written twice.
        requested = [key for key, end in self._requested.items() if end <= position]
        return [*self.dirty_set.due(self._clock(), requested), *self.dropping]

    def propose(self, states: Mapping[bytes, State], due: Sequence[bytes], position: int, epochs: LeaderEpochs) -> Save:
        """Return the checkpoints of ``states`` and the floor that is true once they are written (P5)."""
        inventory = self._inventory
        assert inventory is not None
        for key in set(due) - states.keys():  # its checkpoint is damaged, and the view does not have it either
            self.dropping.discard(key)
            self.dirty_set.remove(key)
        states = {key: state.without_content() if key in self.dropping else state for key, state in states.items()}
        newer = {
            key: state for key, state in states.items() if state.offset > inventory.offset(key) or key in self.dropping
        }
        left_out = self.dirty_set.first_except(newer.keys())
        offset = max(inventory.floor, position if left_out is None else min(left_out, position))
        low = self._log.watermarks(self._partition).low if self.dropping else 0
        epoch_of = {
            state.offset: epochs.epoch_at(state.offset) if state.offset >= low else -1
            for state in sorted(newer.values(), key=lambda state: state.offset)
        }
        floor = Floor(
            offset=offset,
            leader_epoch=self._epoch_below(offset, epochs),
            topic_id=self._topic_id,
            since=inventory.since(offset, newer.keys()),
        )
        checkpoints = {
            key: Checkpoint.of(key.decode(), self._partition, state, self._topic_id, epoch_of[state.offset])
            for key, state in newer.items()
        }
        return Save(partition=self._partition, checkpoints=checkpoints, floor=floor, next_offset=position)

    def _epoch_below(self, floor: int, epochs: LeaderEpochs) -> int:
        """Return the epoch of the floor's landmark. A floor that stays keeps its epoch: its record may be trimmed."""
        published = None if self._inventory is None else self._inventory.published
        if published is not None and published.offset == floor and published.leader_epoch >= 0:
            return published.leader_epoch
        return epochs.epoch_at(floor - 1)

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """Note that ``save`` is in the log (P6). Entries that were folded since stay dirty."""
        assert self._inventory is not None
        self._inventory.committed(save.floor, save.checkpoints, positions)
        for key, checkpoint in save.checkpoints.items():
            self.dirty_set.mark_saved(key, checkpoint.offset, self._clock())
            if self._requested.get(key, _NEVER) <= save.next_offset:
                del self._requested[key]
            if key in self.dropping:
                self.dropping.discard(key)
                self.dropped.add(key)
