"""What a replay is asked to do, and what it did: plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from seekpoint.consumers.staging.headers import STRIPPED
from seekpoint.consumers.staging.mask_rules import MaskRules
from seekpoint.consumers.staging.pace import Pace
from seekpoint.consumers.staging.partitioning import Partitions
from seekpoint.consumers.staging.selection import Gap, Selection
from seekpoint.consumers.staging.treatment import check_prefix

__all__ = ["Plan", "ReplayReport", "Sample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for. Raises ``ReplayRefused`` or ``InvalidSetting`` for what cannot be."""

    selection: Selection = field(default_factory=Selection)
    pace: Pace = field(default_factory=Pace)
    partitions: Partitions = Partitions.AUTO
    prefix: str = ""
    """Put before the id of each process, in key and entry."""
    masks: MaskRules | None = None
    seeded: bool = False
    """Each process starts from its state at the start of the range."""
    strip_headers: tuple[str, ...] = STRIPPED

    def __post_init__(self) -> None:
        if self.prefix:
            check_prefix(self.prefix)

    @property
    def is_plain(self) -> bool:
        """Whether every record goes as it is."""
        return self.selection.is_whole and not self.prefix and self.masks is None

    def to_dict(self) -> dict[str, Any]:
        """As plain data: equal plans do the same. Of masks only a digest, of their key nothing."""
        return {
            "selection": self.selection.to_dict(),
            "pace": self.pace.to_dict(),
            "partitions": str(self.partitions),
            "prefix": self.prefix,
            "masks": None if self.masks is None else self.masks.digest,
            "seeded": self.seeded,
            "strip_headers": list(self.strip_headers),
        }

    def told(self) -> dict[str, Any]:
        """The same for those who read the target: where values are masked, without what the selection names."""
        told = self.to_dict()
        if self.masks is not None:
            asked = told["selection"]
            hidden = {name: len(asked[name]) for name in ("processes", "actors", "headers") if asked[name]}
            where = None if asked["where"] is None else "not told: values are masked"
            told["selection"] = {**asked, **hidden, "where": where}
        return told

    def digest(self, source: str, target: str) -> str:
        """Names this plan between these places; the pace may be another when it is resumed."""
        data = {**self.to_dict(), "pace": None, "source": source, "target": target}
        return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=6).hexdigest()


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
