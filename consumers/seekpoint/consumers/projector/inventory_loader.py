"""P1: which checkpoints a partition has, read after the former owner's transaction has ended."""

from __future__ import annotations

from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory, drop_lost, read_inventory
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.log.manifest import newest_schemas


class InventoryLoader:
    """Loads the checkpoint inventory of one partition and compares it with the log. For one thread.

    ``hint`` is where to begin reading the checkpoint partition. It counts only as far as a floor there confirms it.
    """

    def __init__(self, source: ProjectionSource, partition: int, hint: int) -> None:
        self.inventory: CheckpointInventory | None = None
        """The inventory, once it is loaded."""
        self._source = source
        self._partition = partition
        self._hint = hint
        self._barrier: int | None = None
        self._read_to = 0

    def load(self) -> CheckpointInventory | None:
        """Return the inventory; None while a transaction below the barrier is undecided.

        Raises ``JournalGap`` and ``LogTruncated`` if the log has no longer what the checkpoints build on.
        """
        if self.inventory is None:
            self.inventory = self._loaded()
        return self.inventory

    def reset(self, *, hint: int | None = None) -> None:
        """Have the next ``load`` read the checkpoint partition again; with ``hint`` from there."""
        self.inventory = self._barrier = None
        if hint is not None:
            self._hint = hint

    def is_outdated(self) -> bool:
        """Return whether there are newer checkpoints, whose floor may stand for entries that are gone from the log."""
        return self._read_to < self._source.checkpoints.stable_end(self._partition)

    def _loaded(self) -> CheckpointInventory | None:
        source = self._source
        if self._barrier is None:
            source.writer.settle()
            self._barrier = source.checkpoints.end(self._partition)
        stable = source.checkpoints.stable_end(self._partition)
        if stable < self._barrier:
            return None
        self._read_to = stable
        inventory = read_inventory(source.checkpoints, self._partition, source.topic_id, stable, self._hint)
        if inventory.has_newer:
            newest_schemas(source.log.table("schemas").items())  # raises NewerFormat if the manifest was raised
        if drop_lost(inventory, source.log) and inventory.start > 0:  # those below the lost floor count again
            inventory = read_inventory(source.checkpoints, self._partition, source.topic_id, stable, 0)
            drop_lost(inventory, source.log)
        marks = source.log.watermarks(self._partition)
        if inventory.floor < marks.low:
            facts = {"floor": inventory.floor, **marks._asdict()}
            raise JournalGap(
                "entries that no checkpoint contains are gone from the log",
                journal=source.log.name, partition=self._partition, **facts,
            )  # fmt: skip
        return inventory
