"""Where a recovery may start from, and which way is taken. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from seekpoint.schemas.errors import TierUnavailable

__all__ = ["Tier", "choose_tier"]


class Tier(StrEnum):
    """The ways to a state, the quickest first. All give the same one; a report says which was taken."""

    VIEW = "view"
    """From the Redis projection, then the tail."""
    CHECKPOINT = "checkpoint"
    """From the newest snapshot in the compacted topic, then the tail."""
    SCAN = "scan"
    """From the beginning of the log."""


def choose_tier(missing: Mapping[Tier, str], forced: Tier | None = None) -> Tier:
    """The first tier that is not ``missing`` (which says why), or the ``forced`` one.

    Raises ``TierUnavailable`` with the reason if it is missing.
    """
    wanted = list(Tier) if forced is None else [Tier(forced)]
    for tier in wanted:
        if tier not in missing:
            return tier
    reasons = "; ".join(f"{tier}: {missing[tier]}" for tier in wanted)
    raise TierUnavailable(f"no such way to recover ({reasons})", tier=str(forced) if forced else None)
