"""What a replay did, or would do: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from seekpoint.consumers.staging.copy.copy_stats import CopyStats
from seekpoint.consumers.staging.copy.predicate import Predicate
from seekpoint.consumers.staging.copy.selection import Gap, Selection
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.dataclass import dataclass

__all__ = ["ReplayReport", "Sample", "estimate", "not_foldable", "notes_of"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One record before and after masking, for a dry run. Holds what is not masked: for people's eyes only."""

    partition: int
    offset: int
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What a replay did, or (``dry_run``) would do."""

    job: str
    source: str
    target: str
    dry_run: bool
    complete: bool
    """False: it was stopped. The same command goes on."""
    checked: bool
    """Whether the target was read back, and holds what was sent: records, bytes and sums of each partition."""
    read: int
    """Records read from the source."""
    replayed: int
    """Records that belong into the target: seeded entries, and those of earlier runs of this job too."""
    sent: int
    """Records sent by this run; each was acknowledged."""
    already_there: int
    """Records an earlier run of this job had sent without keeping a note of it."""
    seeded: int
    """Of those, entries that carry a state."""
    bytes: int
    """Of keys and values of what was replayed."""
    left_out: Mapping[str, int]
    """Why records that were selected were not sent, or not treated."""
    gaps: tuple[Gap, ...]
    """What was asked for and is not in the source."""
    missing_offsets: int
    """Offsets without a record: compacted, aborted, or marks of transactions. The first of them are in ``gaps``."""
    restamped: int
    """Records that got the present time, for theirs was 0."""
    not_foldable: tuple[str, ...]
    """Why states folded from the target differ from the source's; empty: they do not."""
    lateness: Mapping[str, float]
    duration_s: float
    """Of the copy: without planning and comparing."""
    estimate_s: float | None = None
    """For a dry run: how long the replay will take."""
    by_partition: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Records and bytes by partition of the target."""
    samples: tuple[Sample, ...] = ()
    offset_map: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def records_per_s(self) -> float:
        """How many records this run sent a second."""
        return self.sent / self.duration_s if self.duration_s > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        data = asdict(self)
        data["gaps"] = [gap._asdict() for gap in self.gaps]
        data["by_partition"] = {
            str(partition): {"records": records, "bytes": size}
            for partition, (records, size) in self.by_partition.items()
        }
        return {**data, "records_per_s": round(self.records_per_s, 1)}


def not_foldable(plan: Plan, stretches: Sequence[OffsetRange], left_out: Mapping[str, int]) -> tuple[str, ...]:
    """Why states folded from the target differ from the source's."""
    reasons = []
    if not plan.selection.keeps_histories:
        reasons.append("entries were selected one by one (kinds, actors, headers, predicate)")
    if not plan.seeded and any(stretch.start > 0 for stretch in stretches):
        reasons.append("the range does not start at the log's beginning, and processes were not seeded")
    if any(why.startswith("dropped") for why in left_out):
        reasons.append("records were dropped by a mask's policy")
    return tuple(reasons)


def estimate(plan: Plan, flow: CopyStats, took: float) -> float:
    """Seconds that a replay will take. Unpaced: twice as long as reading alone took, which is what a copy costs."""
    if plan.pace.rate is not None:
        return round(flow.tallies.records / plan.pace.rate, 1)
    if plan.pace.speed is not None and flow.first_ms is not None and flow.last_ms is not None:
        return round((flow.last_ms - flow.first_ms) / 1000 / plan.pace.speed, 1)
    return round(2 * took, 1)


def notes_of(plan: Plan, flow: CopyStats, predicate: Predicate | None, *, complete: bool) -> tuple[str, ...]:
    """What the numbers do not say."""
    notes = []
    if complete and not flow.tallies.records and plan.selection != Selection():
        notes.append("nothing was selected: no record in the source is what was asked for")
    if predicate is not None and predicate.unanswered:
        notes.append(f"{predicate.unanswered} records could not be asked: {predicate.first_problem}")
    return tuple(notes)
