"""The port through which a projector shares the partitions of the journal with others, and reads its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Record


@dataclass(slots=True)
class Fetched:
    """The records that one poll returned of one partition, in order."""

    partition: int
    records: list[Record] = field(default_factory=list)
    next_offset: int = -1
    leader_epoch: int = -1
    """Of the newest record; -1 if the client does not report it."""
    is_lost: bool = False
    """Whether the next offset is not in the log. The client reports that once, and then nothing more."""
    damage: SeekpointError | None = None
    """The error for a damaged record. The client goes on at some later offset, so ignore all that follows."""


class ProjectorGroup(Protocol):
    """A member of the group of projectors. For one thread. Raises ``JournalUnavailable`` and ``JournalMismatch``."""

    @property
    def is_lost(self) -> bool:
        """Whether nobody reads for the group, this member included, although the log answers."""

    def poll(self, count: int, timeout_s: float) -> list[Fetched]:
        """Return at most ``count`` records or so, by partition; none after ``timeout_s``. May call both callbacks."""

    def read(self, positions: Mapping[int, int]) -> None:
        """Read only these partitions, from these offsets on."""

    def hints(self, partitions: Sequence[int]) -> dict[int, int] | None:
        """Return the former owners' hints (0: none); None while one of their transactions is undecided."""

    def membership(self) -> object:
        """Return the present membership, for a transaction of states that are read afterwards."""

    def end(self, partition: int) -> int | None:
        """Return the partition's end as of the last fetch; None if it is not known."""

    def close(self) -> None:
        """Leave the group."""


JoinGroup: TypeAlias = Callable[[Callable[[Sequence[int], object], None], Callable[[bool], None]], ProjectorGroup]
"""Joins the group. ``on_assigned`` receives the partitions and the present membership; ``on_revoked`` has to finish all
saves before it returns, and is told whether the partitions are lost already."""
