"""A projector's assignment: the partitions it has at one time, and the membership that they were assigned under."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from seekpoint.consumers.checkpoints.checkpoint_writer import CheckpointWriter, CommitFailed, Positions, Save
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.schemas.errors import OperatorRequired, Retryable, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

_logger = logging.getLogger("seekpoint.consumers")

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_S = 0.5
_PREPARE_INTERVAL_S = 0.02


class _Transaction(FrozenStruct, frozen=True):
    """A transaction that another thread executes."""

    saves: Sequence[Save]
    outcome: Future[Positions]


class Assignment:
    """The projections of the assigned partitions: an error of one leaves the others alone, one transaction saves all.

    ``membership`` is captured when the partitions are assigned, so before any of their states is read. The broker
    therefore refuses a transaction of a projector that lost its partitions, whatever the projector believes (P5).
    ``transactions`` executes ``writer.commit``.
    """

    def __init__(
        self,
        membership: object,
        projections: Sequence[PartitionProjection],
        writer: CheckpointWriter,
        transactions: Executor,
    ) -> None:
        self.projections: Mapping[int, PartitionProjection] = {one.partition: one for one in projections}
        self.stopped: dict[int, SeekpointError] = {}
        """Partitions that a person has to look at, with the error that stopped them."""
        self._membership = membership
        self._writer = writer
        self._transactions = transactions
        self._transaction: _Transaction | None = None
        self._retry_at_s: dict[int, float] = {}

    def attempt(self, partition: int, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what ``act`` returns. After an error that delays or stops only this partition, return None."""
        projection = self.projections[partition]
        try:
            return act(*args, **kwargs)
        except Retryable as exc:
            _logger.warning("partition %d waits: %s", partition, exc)
            projection.reload()
            self._retry_at_s[partition] = time.monotonic() + _RETRY_S
        except OperatorRequired as exc:
            _logger.error("partition %d is stopped: %s", partition, exc)
            projection.reload(checkpoints=True)
            self.stopped[partition] = exc
        return None

    def unprepared(self) -> list[int]:
        """Return the partitions to prepare now, each at most every 20 ms.

        There are none during a save: the preparation would read the checkpoints while more are being written (P1).
        """
        now_s = time.monotonic()
        due = [
            partition
            for partition, projection in self.projections.items()
            if not (self.is_saving or projection.is_ready or partition in self.stopped)
            and now_s >= self._retry_at_s.get(partition, 0.0)
        ]
        self._retry_at_s.update(dict.fromkeys(due, now_s + _PREPARE_INTERVAL_S))
        return due

    @property
    def is_saving(self) -> bool:
        """Whether ``begin_save`` started a transaction whose outcome ``finish_save`` has not processed."""
        return self._transaction is not None

    def begin_save(self, *, force: bool = False) -> None:
        """Start a transaction with the checkpoints that are due, or with ``force`` with all that are behind.

        Another thread executes the transaction while projecting goes on. Call ``finish_save`` before the next one. A
        partition that cannot propose checkpoints does not hold up the others.
        """
        assert self._transaction is None
        saves: list[Save] = []
        for partition, projection in self.projections.items():
            self.attempt(partition, projection.drop_contents)
            save = self.attempt(partition, projection.propose, force=force)
            if save is not None:
                saves.append(save)
        if saves:
            outcome = self._transactions.submit(self._writer.commit, saves, self._membership)
            self._transaction = _Transaction(saves, outcome)

    def finish_save(self, *, wait: bool = False) -> bool:
        """Process the outcome of the transaction. Return False if there is none, or if it has not ended.

        Raises ``CommitFailed``. If the transaction was aborted, its checkpoints are proposed again; if its outcome is
        unknown, each of its partitions is prepared again.
        """
        transaction = self._transaction
        if transaction is None or not (wait or transaction.outcome.done()):
            return False
        self._transaction = None
        try:
            positions = transaction.outcome.result()
        except CommitFailed as exc:
            for save in transaction.saves:
                self._withdraw(save, exc)
            raise
        for save in transaction.saves:
            self.projections[save.partition].committed(save, positions.get(save.partition, {}))
        return True

    def _withdraw(self, save: Save, error: CommitFailed) -> None:
        projection = self.projections[save.partition]
        if error.is_decided:
            projection.refused(save)
        else:
            projection.reload(checkpoints=True)

    def drop(self) -> None:
        """Reset all projections, because another projector may have the partitions now. Finish a save before."""
        for one in self.projections.values():
            one.reload(checkpoints=True)
