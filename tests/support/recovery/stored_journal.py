"""Processes in a log in memory, with the view and the checkpoints that a projector wrote of them."""

from __future__ import annotations

from collections.abc import Sequence

from executors import Inline
from owners import Owner
from projection_bench import write_saves
from seekpoint.consumers.checkpoints.checkpoint_writer import Positions, Save
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.log.memory_log import MemoryLog

__all__ = ["StoredJournal"]


class StoredJournal:
    """A journal of one partition with an owner for each of ``keys``."""

    def __init__(self, *keys: bytes) -> None:
        self.log = MemoryLog(partitions=1)
        self.view = MemoryView(1)
        self.checkpoints = MemoryCheckpoints(1)
        self.owners = {key: Owner(self.log.append, 1, key.decode()) for key in keys}

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        return write_saves(self.checkpoints, saves)

    def settle(self) -> None:
        """Do nothing: no transaction is ever open."""

    def delete_below(self, partition: int, offset: int) -> None:
        self.log.trim(partition, offset)

    def projector(self) -> PartitionProjection:
        source = ProjectionSource(
            log=self.log, topic_id=self.log.topic_id, view=self.view, checkpoints=self.checkpoints, writer=self,
            writes=Inline(), on_poison=lambda record, error: None,
        )  # fmt: skip
        made = PartitionProjection(0, source)
        assert made.prepare() or made.prepare()
        return made

    def project(self, projector: PartitionProjection) -> bool:
        start, stop = projector.position, self.log.watermarks(0).high
        records = [record for batch in self.log.read(0, start, stop) for record in batch.records]
        return projector.project(records, stop, self.log.leader_epoch_at(0, stop - 1)) and projector.flush()

    def newest(self, key: bytes) -> bytes:
        values = [value for _, name, value in self.checkpoints.records(0, 0, self.checkpoints.end(0)) if name == key]
        assert values[-1] is not None
        return values[-1]
