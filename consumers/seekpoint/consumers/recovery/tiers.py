"""The tiers: where a recovery may start from."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Tier"]


class Tier(StrEnum):
    """The ways to a state, the quickest first. All give the same one; a report says which was taken."""

    VIEW = "view"
    """From the Redis projection, then the tail."""
    CHECKPOINT = "checkpoint"
    """From the newest snapshot in the compacted topic, then the tail."""
    SCAN = "scan"
    """From the beginning of the log."""
