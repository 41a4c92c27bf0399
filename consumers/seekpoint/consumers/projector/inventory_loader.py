"""P1: which checkpoints a partition has, read after the former owner's transaction has ended."""

from __future__ import annotations

from seekpoint.consumers.checkpoints.checkpoint import Floor
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory, read_inventory
from seekpoint.consumers.log_reading.leader_epochs import is_intact, lost_landmarks
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.schemas.errors import JournalGap, JournalMismatch, LogTruncated
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
        self._refuse_lost_log(inventory.floor, inventory.published)
        self._mark_lost_heads(inventory)
        return inventory

    def _refuse_lost_log(self, floor: int, published: Floor | None) -> None:
        marks = self._source.log.watermarks(self._partition)
        facts = {"journal": self._source.log.name, "partition": self._partition, "floor": floor, **marks._asdict()}
        if floor > marks.high:
            raise LogTruncated("the log ends before the floor of its checkpoints", **facts)
        if floor < marks.low:
            raise JournalGap("entries that no checkpoint contains are gone from the log", **facts)
        if published is not None and not is_intact(self._source.log, self._partition, published.landmark):
            raise LogTruncated("another leader epoch below the floor: the log was truncated", **facts)

    def _mark_lost_heads(self, inventory: CheckpointInventory) -> None:
        """Mark checkpoints as damaged whose last record the log has no longer."""
        landmarks = (head.landmark for head in inventory.heads.values())
        lost = lost_landmarks(self._source.log, self._partition, landmarks)
        for key in [key for key, head in inventory.heads.items() if head.landmark in lost]:
            inventory.mark_damaged(key, JournalMismatch("the log lost the checkpoint's last record: it was truncated"))
