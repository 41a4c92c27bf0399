"""The port through which the projector writes checkpoints in Kafka transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, Floor
from seekpoint.schemas.errors import Retryable
from seekpoint.schemas.frozen_struct import FrozenStruct

Positions = Mapping[int, Mapping[bytes, int]]
"""By partition and key: the position of a checkpoint in its checkpoint partition."""


class CommitFailed(Retryable):
    """A transaction of checkpoints failed. ``decided``: it is aborted; otherwise its outcome is not known yet."""

    hint = "the projector tries again by itself; if this persists, look at the broker's transaction log"
    decided: bool | None = None

    @property
    def is_decided(self) -> bool:
        """Whether the transaction certainly wrote nothing."""
        return bool(self.decided)


class Save(FrozenStruct, frozen=True, kw_only=True):
    """The checkpoints of one partition to be written, and the floor that is true with them."""

    partition: int
    checkpoints: Mapping[bytes, Checkpoint]
    floor: Floor
    next_offset: int
    """The view's next journal offset. It becomes the group's committed offset, which is only a hint."""


class CheckpointWriter(Protocol):
    """Writes the saves of several partitions in one transaction. Blocking; for one thread."""

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        """Write all of ``saves`` or nothing; return the positions of the checkpoints.

        ``membership`` is the group's metadata, captured before the states in ``saves`` were read. If the group has
        changed since, the broker refuses the transaction (P5). Raises ``CommitFailed``.
        """

    def settle(self) -> None:
        """Commit or abort an open transaction of this writer. Raises ``CommitFailed`` or ``JournalUnavailable``."""
