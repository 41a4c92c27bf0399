"""The health of a program with several parts: each of them has to make progress. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class PartsHealth(ABC):
    """The health of a program: healthy while each of its ``parts`` makes progress."""

    def __init__(self, stall_max_s: float) -> None:
        self.stall_max_s = stall_max_s

    @abstractmethod
    def look(self) -> None:
        """Record the progress of all parts. Call it about every second from the program's event loop."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, float]:
        """The seconds that each part has made no progress."""

    @property
    @abstractmethod
    def lag(self) -> int | None:
        """The amount of work that waits."""

    @property
    @abstractmethod
    def not_ready(self) -> str | None:
        """Why the program does not do its work yet, or any more; None while it does."""

    @property
    def stalled_s(self) -> float:
        """The longest time in seconds that a part has made no progress."""
        return max(self.parts.values())

    @property
    def is_well(self) -> bool:
        """Whether every part made progress recently enough."""
        return self.stalled_s <= self.stall_max_s

    def _stalled_parts(self) -> str | None:
        """Say which parts stand still; None if none does."""
        stalled = [name for name, seconds in self.parts.items() if seconds > self.stall_max_s]
        return f"no progress: {', '.join(stalled)}" if stalled else None
