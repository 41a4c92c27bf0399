"""What a worker tells of its progress, for those who judge its health. Pure."""

from __future__ import annotations

from seekpoint.schemas.frozen_struct import FrozenStruct


class WorkerProgress(FrozenStruct, frozen=True, kw_only=True):
    """The signs of a worker's progress. Two of them, some seconds apart, tell whether it stands still."""

    inbox_rounds: int = 0
    is_writing: bool = False
    """Whether submissions are being written to the journal: the inbox is not read meanwhile."""
    tail_rounds: int = 0
    tail_is_idle: bool = True
    tail_lag: int = 0
    tail_stalled_s: float = 0.0
    is_joined: bool = False
    """Whether the group has told the worker its partitions, which may be none."""
    is_caught_up: bool = False
    """Whether the worker follows its partitions, and knows their unfinished processes."""
    is_draining: bool = False
    submissions: int = 0
    """How many submissions this worker has written to the journal."""
