"""The values that durable calls give to the code that makes them."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["GateAnswer", "Turn", "Versioned"]


class GateAnswer(NamedTuple):
    """How a gate was answered. True only if somebody said yes; ``approved`` says the same.

    ``outcome`` is approved, denied, signalled (a signal that is neither) or timed_out; ``payload`` what the signal
    carried (``{"left_out": TYPE}`` of one that no entry has room for); ``actor`` who sent it; ``reason`` why, where
    that was said.
    """

    outcome: str
    payload: Any = None
    actor: str | None = None
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.approved

    @property
    def approved(self) -> bool:
        """Whether somebody said yes."""
        return self.outcome == "approved"

    @property
    def denied(self) -> bool:
        """Whether somebody said no."""
        return self.outcome == "denied"

    @property
    def timed_out(self) -> bool:
        """Whether nobody answered in time."""
        return self.outcome == "timed_out"


class Turn(NamedTuple):
    """One round; they count from 1."""

    number: int


class Versioned(NamedTuple):
    """A shared value, and how often it was set: 0, and None, where it never was."""

    value: Any
    version: int
