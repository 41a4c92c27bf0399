"""Health as progress: a service is well while it gets on with its work, not while its threads exist. Pure.

A consumer that is alive and does not consume looks fine to everything else (and clients do stop silently).
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["STALL_MAX_S", "ProgressHealth"]

STALL_MAX_S = 30.0
"""So long may work stand without anything being done."""


class ProgressHealth:
    """Watches one service. It must be told of the lag again and again: to hear nothing for long is not well either."""

    def __init__(self, stall_max_s: float = STALL_MAX_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.stall_max_s = stall_max_s
        self._clock = clock
        self._since = clock()
        self.lag: int | None = None
        """What waits, as of the last look; None before the first."""

    def observe(self, lag: int) -> None:
        """So much waits. Nothing waiting is as good as progress."""
        self.lag = lag
        if lag <= 0:
            self._since = self._clock()

    def progress(self) -> None:
        """Something was done."""
        self._since = self._clock()

    @property
    def stalled_s(self) -> float:
        """Seconds for which something waited and nothing was done."""
        return max(0.0, self._clock() - self._since)

    @property
    def is_well(self) -> bool:
        """False once it stands too long."""
        return self.stalled_s <= self.stall_max_s
