"""The partitions one projector holds at one time, under the membership it was given them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future

from seekpoint.consumers.checkpoints.checkpoint_writer import CheckpointWriter, CommitFailed, Positions, Save
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import SeekpointError

__all__ = ["Assignment"]


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A transaction in another thread."""

    saves: Sequence[Save]
    outcome: Future[Positions]


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
        self._under_way: _UnderWay | None = None

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
        saves = self._standing(saves)
        if saves:
            self._take(saves, lambda: self._writer.commit(saves, self._membership))

    @property
    def is_saving(self) -> bool:
        """Whether a transaction was begun and ``finish`` has not told how it ended."""
        return self._under_way is not None

    def begin(self, saves: Sequence[Save], transactions: Executor) -> None:
        """Have ``saves`` written in another thread, while projecting goes on; ``finish`` tells how that ended.

        One at a time. Nothing is prepared meanwhile: it would read what is saved while more is on its way (P1).
        """
        assert self._under_way is None
        saves = self._standing(saves)
        if saves:
            outcome = transactions.submit(self._writer.commit, saves, self._membership)
            self._under_way = _UnderWay(saves, outcome)

    def finish(self, *, wait: bool = False) -> bool:
        """Take in how the transaction that was begun has ended; False: it has not, or none was. Raises as ``save``."""
        under_way = self._under_way
        if under_way is None or not (wait or under_way.outcome.done()):
            return False
        try:
            self._take(under_way.saves, under_way.outcome.result)
        finally:
            self._under_way = None
        return True

    def _standing(self, saves: Sequence[Save]) -> list[Save]:
        return [save for save in saves if self.projections[save.partition].pending is save]

    def _take(self, saves: Sequence[Save], outcome: Callable[[], Positions]) -> None:
        try:
            positions = outcome()
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
        """Nothing of it counts any more. A transaction that was begun has to be finished before."""
        for one in self.projections.values():
            one.reload(anew=True)
