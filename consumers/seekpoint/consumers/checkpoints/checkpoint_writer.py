"""How checkpoints are written: the port between the projector and Kafka's transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, Floor
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import Retryable

__all__ = ["CheckpointWriter", "CommitFailed", "Positions", "Save"]

Positions = Mapping[int, Mapping[bytes, int]]
"""By partition and key: where a checkpoint is in its checkpoint partition."""


class CommitFailed(Retryable):
    """A transaction of checkpoints did not end well. ``decided``: it is aborted; else nobody knows yet."""

    hint = "the projector goes on by itself; if it stays so, look at the broker's transaction log"

    @property
    def is_decided(self) -> bool:
        """Whether it certainly wrote nothing."""
        return bool(self.facts.get("decided", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """What one partition wants to have written: checkpoints, and the floor that is true with them."""

    partition: int
    checkpoints: Mapping[bytes, Checkpoint]
    floor: Floor
    next_offset: int
    """The journal offset the view is at: the group's offset, a hint and no more."""


class CheckpointWriter(Protocol):
    """Writes saves of several partitions in one transaction. Blocking; one thread's."""

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        """Write all of ``saves``, or nothing; where the checkpoints are.

        ``membership`` is the group's metadata as it was captured before the states in ``saves`` were read: a broker
        whose group has gone on refuses them (P5). Raises ``CommitFailed``.
        """

    def settle(self) -> None:
        """Whatever this writer has open is decided afterwards. Raises ``CommitFailed`` or ``JournalUnavailable``."""
