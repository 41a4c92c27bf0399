"""What a recovery gives: the state, and a report of what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from seekpoint.consumers.tiers import Tier
from seekpoint.schemas.state import State

__all__ = ["Recovered", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a state was found. Offsets are of the process's partition."""

    tier: Tier
    seek_point: int
    """Where reading started."""
    log_start: int
    log_end: int
    """The next offset to come, when it was asked: the state is as of there unless a point in the past was."""
    entries_scanned: int
    """Entries read, those of other processes in the partition included."""
    entries_applied: int
    """The process's own that counted, without claims and releases."""
    bytes: int
    """Bytes of keys and values read."""
    duration_s: float
    last_kind: str | None
    """The kind of the process's last entry; None for a new process."""
    poison: int = 0
    """Records under the process's key that were no entries: see ``seekpoint dlq ls``."""
    notes: tuple[str, ...] = ()
    """What was not as usual."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {**asdict(self), "tier": str(self.tier), "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class Recovered:
    """A process as it was found. ``known`` is False for one that has no entry: then the state is a new one's."""

    state: State
    report: Report
    known: bool = True
