"""The report of a replay, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from msgspec import field

from seekpoint.consumers.staging.copy.copy_stats import CopyStats
from seekpoint.consumers.staging.copy.predicate import Predicate
from seekpoint.consumers.staging.copy.selection import Gap, Selection
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.frozen_struct import FrozenStruct


class Sample(FrozenStruct, frozen=True):
    """One record of a dry run before and after masking. It holds unmasked values: only show it, never store it."""

    partition: int
    offset: int
    before: str
    after: str


class ReplayReport(FrozenStruct, frozen=True, kw_only=True):
    """The work that a replay did, or (``dry_run``) would do."""

    job: str
    source: str
    target: str
    dry_run: bool
    complete: bool
    """Whether all records were copied. If not, the same command resumes the replay."""
    checked: bool
    """Whether the target was read back and holds what was sent: records, bytes and checksum of each partition."""
    read: int
    """Records read from the source."""
    replayed: int
    """Records that belong into the target, including seeded entries and the records of earlier runs of this job."""
    sent: int
    """Records that this run sent; each was acknowledged."""
    already_there: int
    """Records that an earlier run of this job sent after it last saved its progress."""
    seeded: int
    """Seeded entries; they are part of ``replayed``."""
    bytes: int
    """Bytes of the keys and values of the replayed records."""
    left_out: Mapping[str, int]
    """By reason: selected records that were not sent, or sent without a change that the plan asks for."""
    gaps: tuple[Gap, ...]
    """Selected offsets that the source does not have."""
    missing_offsets: int
    """Offsets without a record: compacted, aborted, or transaction markers. The first of them are in ``gaps``."""
    restamped: int
    """Records that got the current time because their own was 0."""
    not_foldable: tuple[str, ...]
    """Reasons why states folded from the target differ from the source's; empty if they do not."""
    lateness: Mapping[str, float]
    duration_s: float
    """Seconds of the copy, without planning and comparison."""
    estimate_s: float | None = None
    """For a dry run: the expected seconds of the replay."""
    by_partition: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Records and bytes by partition of the target."""
    samples: tuple[Sample, ...] = ()
    offset_map: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def records_per_s(self) -> float:
        """Return the records that this run sent per second."""
        return self.sent / self.duration_s if self.duration_s > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        data = asdict(self)
        data["gaps"] = [gap._asdict() for gap in self.gaps]
        data["by_partition"] = {
            str(partition): {"records": records, "bytes": size}
            for partition, (records, size) in self.by_partition.items()
        }
        return {**data, "records_per_s": round(self.records_per_s, 1)}


def not_foldable(plan: Plan, ranges: Sequence[OffsetRange], left_out: Mapping[str, int]) -> tuple[str, ...]:
    """Return the reasons why states folded from the target differ from the source's."""
    reasons = []
    if not plan.selection.keeps_histories:
        reasons.append("entries were selected one by one (kinds, actors, headers, predicate)")
    if not plan.seeded and any(each.start > 0 for each in ranges):
        reasons.append("the range does not start at the log's beginning, and processes were not seeded")
    if any(why.startswith("dropped") for why in left_out):
        reasons.append("records were dropped by a mask's policy")
    return tuple(reasons)


def estimate(plan: Plan, stats: CopyStats, took: float) -> float:
    """Estimate the seconds of a replay. An unpaced copy takes about twice as long as reading alone."""
    if plan.pace.rate is not None:
        return round(stats.tallies.records / plan.pace.rate, 1)
    if plan.pace.speed is not None and stats.first_ms is not None and stats.last_ms is not None:
        return round((stats.last_ms - stats.first_ms) / 1000 / plan.pace.speed, 1)
    return round(2 * took, 1)


def notes_of(plan: Plan, stats: CopyStats, predicate: Predicate | None, *, complete: bool) -> tuple[str, ...]:
    """Return remarks for people that the figures do not contain."""
    notes = []
    if complete and not stats.tallies.records and plan.selection != Selection():
        notes.append("nothing was selected: no record of the source matches")
    if predicate is not None and predicate.not_evaluated:
        notes.append(f"the expression failed for {predicate.not_evaluated} records: {predicate.first_error}")
    return tuple(notes)
