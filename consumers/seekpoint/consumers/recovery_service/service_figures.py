"""The counters of a recovery worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ServiceFigures:
    """Counters of a worker since its start."""

    answered: int = 0
    """Requests answered with a state."""
    failed: int = 0
    """Requests answered with an error."""
    expired: int = 0
    """Requests read after their deadline."""
    undecodable: int = 0
    """Records that are no requests."""
    checkpoints: int = 0
    checkpoint_failures: int = 0
    answer_seconds: float = 0.0
    """The sum of the times from reading a request to its acknowledged answer."""
    open_requests: int = 0
    """Open requests of the whole group, counted by its leader; 0 elsewhere."""
    unanswered: int = 0
    """Requests whose deadline passed without an answer, counted by the leader."""
