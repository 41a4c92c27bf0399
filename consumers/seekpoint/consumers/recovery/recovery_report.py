"""What a recovery gives: the state, and a report of what it cost."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.state.state import State

__all__ = ["LastCheckpoint", "Recovered", "Report"]


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
    first_in_doubt: str | None = None
    """The key of the first call that began and has no outcome, in the order they began: where a resume goes on."""
    hidden: int = 0
    """Offsets at the partition's end that an open transaction hides: where it is not 0 the state may be an old one."""
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

    def hiding(self, hidden: int, note: str) -> Recovered:
        """The same, with a report that says what an open transaction hides."""
        report = replace(self.report, hidden=hidden, notes=(*self.report.notes, note))
        return Recovered(self.state, report, self.known)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """A process's newest checkpoint, as it lies in the compacted topic."""

    process_id: str
    partition: int
    offset: int
    """The journal offset it is as of."""
    seq: int
    epoch: int
    position: int
    """Its own offset in the checkpoint partition."""
    floor: int
    """The newest floor of the partition; 0 if there is none yet."""
    seek_point: int
    """Where a recovery from it starts to read the journal."""
    leader_epoch: int
    topic_id: str
    fold_version: int
    state_bytes: int
    problem: str | None
    """Why it may not be used; None if it may."""

    @classmethod
    def of(cls, value: bytes, position: int, floor: int, seek_point: int, problem: str | None) -> LastCheckpoint:
        """What ``value`` says of itself. Raises ``JournalMismatch`` if it is no checkpoint."""
        found = Checkpoint.from_bytes(value)
        return cls(
            process_id=found.process_id,
            partition=found.partition,
            offset=found.offset,
            seq=found.seq,
            epoch=found.epoch,
            position=position,
            floor=floor,
            seek_point=seek_point,
            leader_epoch=found.leader_epoch,
            topic_id=found.topic_id,
            fold_version=found.fold_version,
            state_bytes=len(found.state),
            problem=problem,
        )
