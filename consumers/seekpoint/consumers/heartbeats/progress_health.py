"""Health as progress: a service is well while it does its work, not while its threads exist. Pure.

A client may stop consuming without an error. Only missing progress shows that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

STALL_MAX_S = 30.0
"""How long work may wait without progress."""


class ProgressHealth:
    """The health of one service. Call ``observe`` again and again: without calls the service counts as stalled."""

    def __init__(self, stall_max_s: float = STALL_MAX_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.stall_max_s = stall_max_s
        self._clock = clock
        self._since = clock()
        self.lag: int | None = None
        """The lag of the last ``observe``; None before the first."""

    def observe(self, lag: int) -> None:
        """Record the current lag. A lag of 0 counts as progress."""
        self.lag = lag
        if lag <= 0:
            self._since = self._clock()

    def progress(self) -> None:
        """Record progress."""
        self._since = self._clock()

    @property
    def stalled_s(self) -> float:
        """Seconds since the last progress, while work waited."""
        return max(0.0, self._clock() - self._since)

    @property
    def is_well(self) -> bool:
        """Whether the service is not stalled for longer than ``stall_max_s``."""
        return self.stalled_s <= self.stall_max_s

    @property
    def not_ready(self) -> str | None:
        """Why the service does not do its work yet, or any more; None while it does."""
        if self.lag is None:
            return "it has not begun to work"
        return None if self.is_well else f"no progress for {self.stalled_s:.0f} s"

    @property
    def parts(self) -> Mapping[str, float]:
        """The seconds without progress by part; empty for a service that is one part."""
        return {}
