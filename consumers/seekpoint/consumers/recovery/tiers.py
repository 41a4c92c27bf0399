"""The tiers: where a recovery can start from."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Tier"]


class Tier(StrEnum):
    """Where a recovery starts, the quickest first. All tiers lead to the same state; a report names the tier."""

    VIEW = "view"
    """From the Redis projection, then the tail."""
    CHECKPOINT = "checkpoint"
    """From the newest snapshot in the compacted topic, then the tail."""
    SCAN = "scan"
    """From the beginning of the log."""
