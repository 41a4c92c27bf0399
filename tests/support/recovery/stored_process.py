"""A process in a log in memory, with a view and checkpoints beside it that a test puts there by hand."""

from __future__ import annotations

from dataclasses import replace

from owners import Owner
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.checkpoint_index import CheckpointIndex
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.recovery.base_finder import BaseFinder
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import State

__all__ = ["KEY", "Kept", "begin"]

KEY = b"case-17"


class Kept:
    """A process with a view and checkpoints beside its log."""

    def __init__(self, log: MemoryLog, owner: Owner) -> None:
        self.log = log
        self.owner = owner
        self.partition = owner.partition
        self.view = MemoryView(4)
        self.checkpoints = MemoryCheckpoints(4)
        self.base_finder = BaseFinder(log, self.view, self.checkpoints)
        self.base_finder.index = CheckpointIndex(self.checkpoints, wait_s=0.1)
        self.recoverer = Recoverer(log, view=self.view, checkpoints=self.checkpoints)
        self.recoverer.base_finder = self.base_finder

    def state(self) -> State:
        return Recoverer(self.log).recover("case-17").state

    def checkpoint(self, **changes: object) -> Checkpoint:
        state = self.state()
        epoch = self.log.leader_epoch_at(self.partition, state.offset)
        made = Checkpoint.of("case-17", self.partition, state, self.log.topic_id, epoch)
        return replace(made, **changes)  # type: ignore[arg-type]

    def save(self, checkpoint: Checkpoint | None = None, floor: int | None = None) -> int:
        """A checkpoint of now, and a floor (the end of the log)."""
        made = checkpoint or self.checkpoint()
        [position] = self.checkpoints.write(self.partition, [(KEY, made.to_bytes())])
        self.floor(self.log.watermarks(self.partition).high if floor is None else floor)
        return position

    def floor(self, offset: int) -> None:
        epoch = self.log.leader_epoch_at(self.partition, offset - 1)
        record = Floor(offset=offset, leader_epoch=epoch, topic_id=self.log.topic_id, since=0)
        self.checkpoints.write(self.partition, [(FLOOR_KEY, record.to_bytes())])

    def project(self, pointer: Pointer | None = None, topic_id: str | None = None) -> None:
        """A view of now."""
        token = self.view.install(self.partition, topic_id or self.log.topic_id)
        self.view.put(self.partition, token, {KEY: (self.state(), pointer or Pointer(999, 0))})
        applied = self.log.watermarks(self.partition).high - 1
        self.view.ready(self.partition, token, applied, self.log.leader_epoch_at(self.partition, applied))

    def foreign(self, count: int) -> None:
        for _ in range(count):
            self.log.append(self.partition, b"somebody", b"else")


def begin(kept: Kept, updates: int = 3) -> None:
    kept.owner.claim()
    for number in range(1, updates + 1):
        kept.owner.update("k", str(number))
