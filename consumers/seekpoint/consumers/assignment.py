"""The partitions one projector holds at one time, under the membership it was given them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seekpoint.consumers.checkpoint_writer import CheckpointWriter, CommitFailed, Save
from seekpoint.consumers.projection import PartitionProjection
from seekpoint.schemas.errors import SeekpointError

__all__ = ["Assignment"]


class Assignment:
    """Saves what its projections propose, in one transaction.

    ``membership`` is captured when the partitions were assigned, so before any of their states were read: a
    transaction of a projector that lost them is refused by the broker, whatever it still believes (P5).
    """

    def __init__(
        self, membership: object, projections: Sequence[PartitionProjection], writer: CheckpointWriter
    ) -> None:
        self.projections: Mapping[int, PartitionProjection] = {one.partition: one for one in projections}
        self._membership = membership
        self._writer = writer

    def save(self, *, force: bool = False) -> int:
        """Write the checkpoints that are due, with ``force`` all; how many there were.

        Raises ``CommitFailed``: what is decided is proposed again, after the rest each partition starts anew.
        """
        saves = self.propose(force=force)
        self.commit(saves)
        return sum(len(save.checkpoints) for save in saves)

    def propose(self, *, force: bool = False) -> list[Save]:
        """What each partition wants written. It may go on projecting until they are committed."""
        saves: list[Save] = []
        try:
            for one in self.projections.values():
                save = one.propose(force=force)
                saves += [] if save is None else [save]
        except SeekpointError:
            self.withdraw(saves)
            raise
        return saves

    def withdraw(self, saves: Sequence[Save]) -> None:
        """They will not be committed; what they hold is proposed again."""
        for save in saves:
            self.projections[save.partition].refused(save)

    def commit(self, saves: Sequence[Save]) -> None:
        """Write ``saves``, all but those whose partition was reloaded since."""
        saves = [save for save in saves if self.projections[save.partition].pending is save]
        if not saves:
            return
        try:
            positions = self._writer.commit(saves, self._membership)
        except CommitFailed as exc:
            for save in saves:
                self._give_up(save, exc)
            raise
        for save in saves:
            self.projections[save.partition].committed(save, positions.get(save.partition, {}))

    def _give_up(self, save: Save, error: CommitFailed) -> None:
        projection = self.projections[save.partition]
        if error.is_decided:
            projection.refused(save)
        else:
            projection.reload(anew=True)

    def drop(self) -> None:
        """Nothing of it is under way afterwards."""
        for one in self.projections.values():
            one.reload(anew=True)
