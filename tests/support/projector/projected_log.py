"""A view and checkpoints beside a log in memory, put there by folding prefixes of what was written: legal by the book.

``project`` and ``save`` do what a projector would have done by then; the floor is the one of P5.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from histories import Written
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import State, new_state

__all__ = ["Projected"]


class Projected:
    """What is kept beside ``log``, of which ``written`` is everything."""

    def __init__(self, log: MemoryLog, written: Sequence[Written]) -> None:
        self.log = log
        self.written = written
        self.view = MemoryView(log.partitions)
        self.checkpoints = MemoryCheckpoints(log.partitions)
        self.floors = dict.fromkeys(range(log.partitions), 0)
        self.pointers: dict[bytes, Pointer] = {}
        self._saved: dict[bytes, int] = {}

    def states(self, partition: int, stop: int) -> dict[bytes, State]:
        """Every process of the partition that has an entry below ``stop``, as of there."""
        found: dict[bytes, State] = {}
        for one in self.written:
            if one.entry is not None and one.partition == partition and one.offset < stop:
                assert one.key is not None
                found[one.key] = fold(found.get(one.key, new_state()), one.offset, one.entry)
        return found

    def project(self, partition: int, stop: int) -> None:
        """A view that has applied everything below ``stop``."""
        token = self.view.install(partition, self.log.topic_id)
        nowhere = Pointer(9_999, 0)
        states = self.states(partition, stop)
        self.view.put(
            partition, token, {key: (state, self.pointers.get(key, nowhere)) for key, state in states.items()}
        )
        self.view.ready(partition, token, stop - 1, self._epoch(partition, stop - 1))

    def save(self, partition: int, stop: int, keys: Collection[bytes]) -> None:
        """Checkpoints of ``keys`` as of everything below ``stop``, and the floor, in one transaction."""
        states = self.states(partition, stop)
        transaction = self.checkpoints.begin()
        positions = {}
        for key, state in states.items():
            if key in keys and state.offset > self._saved.get(key, -1):
                epoch = self._epoch(partition, state.offset)
                checkpoint = Checkpoint.of(key.decode(), partition, state, self.log.topic_id, epoch)
                positions[key] = transaction.put(partition, key, checkpoint.to_bytes())
                self._saved[key] = state.offset
        floor = self.floors[partition] = max(self.floors[partition], self._first_unsaved(partition, stop))
        transaction.put(partition, FLOOR_KEY, self.floor_record(partition, floor))
        transaction.commit()
        self.pointers.update({key: Pointer(position, floor) for key, position in positions.items()})

    def floor_record(self, partition: int, offset: int) -> bytes:
        """A floor there."""
        epoch = self._epoch(partition, offset - 1)
        return Floor(offset=offset, leader_epoch=epoch, topic_id=self.log.topic_id, since=0).to_bytes()

    def _first_unsaved(self, partition: int, stop: int) -> int:
        """The first entry below ``stop`` that is missing from its process's checkpoint, else ``stop``."""
        missing = (
            one.offset
            for one in self.written
            if one.entry is not None
            and (one.partition, True) == (partition, one.offset < stop)
            and one.offset > self._saved.get(one.key or b"", -1)
        )
        return min(missing, default=stop)

    def _epoch(self, partition: int, offset: int) -> int:
        return self.log.leader_epoch_at(partition, offset)
