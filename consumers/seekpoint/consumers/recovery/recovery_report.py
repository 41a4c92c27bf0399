"""The result of a recovery: the state, and a report of what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.log_reading.scan import ScanStats
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Watermarks
from seekpoint.schemas.state.process_state import Draft, State


class Report(FrozenStruct, frozen=True, kw_only=True):
    """The way in which a state was recovered, and its cost. Offsets are of the process's partition."""

    tier: Tier
    seek_point: int
    """The offset at which reading started."""
    log_start: int
    log_end: int
    """The log's next offset when the recovery began. The state is as of this offset, or of a requested point."""
    entries_scanned: int
    """Entries that were read, those of other processes in the partition included."""
    entries_applied: int
    """The process's entries that were applied, without claims and releases."""
    bytes: int
    """Bytes of keys and values that were read."""
    duration_s: float
    last_kind: str | None
    """The kind of the process's last entry; None for a new process."""
    poison: int = 0
    """Poison records under the process's key: see ``seekpoint dlq ls``."""
    first_in_doubt: str | None = None
    """The key of the first call that began and has no outcome, in the order of their beginnings. A resume starts there.
    """
    hidden: int = 0
    """Offsets at the partition's end that an open transaction hides. If it is not 0, the state may be an old one."""
    notes: tuple[str, ...] = ()
    """What was unusual, such as a tier that could not be used."""

    @classmethod
    def of_tail(cls, position: int, last_kind: str | None) -> Report:
        """Return the report of a process that was folded from the log's tail, from its first entry on: nothing read."""
        return cls(
            tier=Tier.SCAN, seek_point=position, log_start=0, log_end=position, entries_scanned=0, entries_applied=0,
            bytes=0, duration_s=0.0, last_kind=last_kind,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        return {**asdict(self), "tier": str(self.tier), "notes": list(self.notes)}


class Recovered(FrozenStruct, frozen=True):
    """A recovered process. ``known`` is False if it has no entry, or was deleted; then its state is that of a new one.

    Of a deleted process, epoch and seq go on: a write that expects a seq expects that one.
    """

    state: State
    report: Report
    known: bool = True

    @classmethod
    def of(
        cls,
        key: bytes,
        draft: Draft,
        stats: ScanStats,
        tier: Tier,
        start: int,
        marks: Watermarks,
        duration_s: float,
        notes: Iterable[str],
    ) -> Recovered:
        """Build the result for the process under ``key`` after a scan that started at ``start``."""
        state = draft.freeze()
        report = Report(
            tier=tier,
            seek_point=start,
            log_start=marks.low,
            log_end=marks.high,
            entries_scanned=stats.scanned,
            entries_applied=stats.applied.get(key, 0),
            bytes=stats.read_bytes,
            duration_s=duration_s,
            last_kind=draft.last_kind,
            poison=stats.poison.get(key, 0),
            first_in_doubt=state.first_in_doubt,
            notes=tuple(notes),
        )
        return cls(state=state, report=report, known=is_known(state))

    def with_hidden_end(self, hidden: int, note: str) -> Recovered:
        """Return a copy whose report says how many offsets an open transaction hides."""
        report = replace(self.report, hidden=hidden, notes=(*self.report.notes, note))
        return Recovered(self.state, report, self.known)


def is_known(draft: Draft) -> bool:
    """Return whether any entry of the process was ever admitted, since its deletion if it was deleted.

    Forged entries and lost claims make no process.
    """
    return (draft.epoch > 0 or bool(draft.remembered)) and not draft.is_deleted


class LastCheckpoint(FrozenStruct, frozen=True, kw_only=True):
    """A process's newest checkpoint in the compacted topic."""

    process_id: str
    partition: int
    offset: int
    """The journal offset of its state."""
    seq: int
    epoch: int
    position: int
    """Its offset in the checkpoint partition."""
    floor: int
    """The newest floor of the partition; 0 if there is none yet."""
    seek_point: int
    """The journal offset at which a recovery from it starts to read."""
    leader_epoch: int
    topic_id: str
    fold_version: int
    state_bytes: int
    problem: str | None
    """Why it cannot be used; None if it can."""

    @classmethod
    def of(cls, value: bytes, position: int, floor: int, seek_point: int, problem: str | None) -> LastCheckpoint:
        """Describe the checkpoint in ``value``. Raises ``JournalMismatch`` if it is none."""
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
