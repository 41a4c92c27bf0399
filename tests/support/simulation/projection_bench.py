"""One partition with all that is kept of it, and a projection that a test drives step by step."""

from __future__ import annotations

import time
from collections.abc import Sequence

from executors import Inline
from owners import Owner
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor
from seekpoint.consumers.checkpoints.checkpoint_writer import CheckpointWriter, CommitFailed, Positions, Save
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.projector.assignment import Assignment
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog

__all__ = ["TOPIC", "Bench", "Writer", "dirty_keys", "save_now", "write_saves"]

TOPIC = "the-topic"


def write_saves(kept: MemoryCheckpoints, saves: Sequence[Save]) -> Positions:
    """What a ``CheckpointWriter`` commits: each partition's checkpoints, and its floor."""
    positions: dict[int, dict[bytes, int]] = {}
    for save in saves:
        records = [(key, one.to_bytes()) for key, one in save.checkpoints.items()]
        where = kept.write(save.partition, [*records, (FLOOR_KEY, save.floor.to_bytes())])
        positions[save.partition] = dict(zip(save.checkpoints, where, strict=False))
    return positions


def dirty_keys(projection: PartitionProjection) -> set[bytes]:
    """Return the processes whose checkpoint is behind."""
    return set(projection._scheduler.dirty_set.by_key)


def save_now(projection: PartitionProjection, writer: CheckpointWriter, *, force: bool = True) -> None:
    """Save the checkpoints that are due, with ``force`` all that are behind. Raises what stops the partition."""
    assignment = Assignment("member", [projection], writer, Inline())
    assignment.begin_save(force=force)
    for error in assignment.stopped.values():
        raise error
    assignment.finish_save(wait=True)


class Writer:
    """Commits everything at once, unless it is told to fail."""

    def __init__(self, kept: MemoryCheckpoints) -> None:
        self.kept = kept
        self.failure: CommitFailed | None = None
        self.memberships: list[object] = []
        self.checkpoints = 0
        """How many it committed."""

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        self.memberships.append(membership)
        if self.failure is not None:
            raise self.failure
        self.checkpoints += sum(len(save.checkpoints) for save in saves)
        return write_saves(self.kept, saves)

    def settle(self) -> None:
        """Nothing is ever open."""


class Bench:
    """A log of one partition with all that is kept of it."""

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.view = MemoryView(1)
        self.kept = MemoryCheckpoints(1)
        self.writer = Writer(self.kept)
        self.now_s = 0.0
        self.damages: list[bytes] = []
        self.later_s = 0.0
        """So much later than the log's times the projector's wall clock is."""
        self.finished_content_s = 604_800.0
        self.poison: list[tuple[Record, UndecodableRecord]] = []
        self.owner = Owner(self.log.append, 1, "case-17")

    def projection(
        self,
        *,
        ready: bool = True,
        hint: int = 0,
        cadence: Cadence | None = None,
        cache: StateCache | None = None,
    ) -> PartitionProjection:
        source = ProjectionSource(
            log=self.log,
            topic_id=TOPIC,
            view=self.view,
            checkpoints=self.kept,
            writer=self.writer,
            writes=Inline(),
            on_poison=lambda record, error: self.poison.append((record, error)),
            on_damage=lambda partition, key, why: self.damages.append(key),
            cadence=cadence or Cadence(),
            clock=lambda: self.now_s,
            wall_clock=lambda: time.time() + self.later_s,
            finished_content_s=self.finished_content_s,
        )
        made = PartitionProjection(0, source, hint=hint, cache=cache)
        if ready:
            assert made.prepare() or made.prepare()
        return made

    def project(self, projection: PartitionProjection) -> bool:
        start, stop = projection.position, self.log.watermarks(0).high
        records = [record for batch in self.log.read(0, start, stop) for record in batch.records]
        return projection.project(records, stop) and projection.flush()

    def save(self, projection: PartitionProjection, *, force: bool = True) -> int:
        before = self.writer.checkpoints
        save_now(projection, self.writer, force=force)
        return self.writer.checkpoints - before

    @property
    def floor(self) -> int | None:
        values = [value for _, key, value in self.kept.records(0, 0, self.kept.end(0)) if key == FLOOR_KEY]
        return Floor.from_bytes(values[-1] or b"").offset if values else None
