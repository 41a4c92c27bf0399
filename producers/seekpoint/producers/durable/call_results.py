"""Define the values that durable calls return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    PayloadT = TypeVar("PayloadT", default=Any)
else:
    from typing import TypeVar

    PayloadT = TypeVar("PayloadT")


class GateAnswer(NamedTuple, Generic[PayloadT]):
    """The answer of a gate. It is true only if the gate was approved.

    ``outcome`` is approved, denied, signalled (a signal that is neither) or timed_out. ``payload`` is the signal's, or
    ``{"left_out": TYPE}`` if no entry has room for it. Of a gate with a ``type`` the payload is of that type; it is
    None where it was left out, and where a plain yes or no does not fit the type. ``actor`` sent the signal; ``reason``
    is theirs, if they gave one.
    """

    outcome: str
    payload: PayloadT | None = None
    actor: str | None = None
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.approved

    @property
    def approved(self) -> bool:
        """Whether somebody approved."""
        return self.outcome == "approved"

    @property
    def denied(self) -> bool:
        """Whether somebody denied."""
        return self.outcome == "denied"

    @property
    def timed_out(self) -> bool:
        """Whether nobody answered in time."""
        return self.outcome == "timed_out"


class ReceivedSignal(NamedTuple, Generic[PayloadT]):
    """A signal that ``receive(type=...)`` took: its payload is of that type."""

    payload: PayloadT
    name: str
    actor: str | None
    id: bytes
    """The id that ``signal`` returned to its sender."""


class Turn(NamedTuple):
    """One turn; turns are numbered from 1."""

    number: int


class Versioned(NamedTuple):
    """A shared value and its version: how often it was set. None and 0 if it was never set."""

    value: Any
    version: int
