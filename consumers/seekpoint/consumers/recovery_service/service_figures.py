"""What a recovery worker counts."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Figures"]


@dataclass(slots=True)
class Figures:
    """What a worker did since its start."""

    answered: int = 0
    """Requests that were answered with a state."""
    failed: int = 0
    """Requests that were answered with an error."""
    expired: int = 0
    """Requests that were read after their deadline."""
    undecodable: int = 0
    """Records that were no requests."""
    passed_over: int = 0
    """Requests that Faust did not deliver, read again by ourselves."""
    checkpoints: int = 0
    checkpoint_failures: int = 0
    answer_seconds: float = 0.0
    """From reading a request to its acknowledged answer, all of them together."""
    open_requests: int = 0
    """Of the whole group, seen by its leader; 0 elsewhere."""
    unanswered: int = 0
    """Requests whose deadline passed without an answer, seen by the leader."""
