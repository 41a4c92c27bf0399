"""The tiers: where a recovery can start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from threading import Lock


class Tier(StrEnum):
    """The places where a recovery may start, the quickest first. All lead to the same state; a report names one."""

    VIEW = "view"
    """From the Redis projection, then the tail."""
    CHECKPOINT = "checkpoint"
    """From the newest snapshot in the compacted topic, then the tail."""
    SCAN = "scan"
    """From the beginning of the log."""


class TierCounts:
    """The number of states that were recovered by each tier. Thread safe."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(Tier, 0)
        self._lock = Lock()

    def add(self, tiers: Iterable[Tier]) -> None:
        """Count one recovery for each of ``tiers``.

        >>> counts = TierCounts()
        >>> counts.add([Tier.VIEW, Tier.SCAN, Tier.VIEW])
        >>> [*counts.now().values()]
        [2, 0, 1]
        """
        with self._lock:
            for tier in tiers:
                self._counts[tier] += 1

    def now(self) -> Mapping[Tier, int]:
        """Return the counts, for every tier."""
        with self._lock:
            return dict(self._counts)
