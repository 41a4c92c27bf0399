"""The figures of a copy while it runs, and the part of them that is settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seekpoint.consumers.staging.copy.pace import Lateness
from seekpoint.consumers.staging.copy.selection import Gap
from seekpoint.consumers.staging.copy.tallies import Tallies

_GAPS_MAX = 1_000


@dataclass(slots=True)
class CopyStats:
    """The figures of a copy while it runs."""

    tallies: Tallies = field(default_factory=Tallies)
    positions: dict[int, int] = field(default_factory=dict)
    """The next offset of each source partition."""
    read: int = 0
    sent: int = 0
    acknowledged: int = 0
    already_there: int = 0
    seeded: int = 0
    restamped: int = 0
    """Records whose time is 0 or missing; Kafka's client cannot send those."""
    lateness: Lateness = field(default_factory=Lateness)
    behind_s: float = 0.0
    """How late the newest record was sent."""
    first_ms: int | None = None
    last_ms: int | None = None
    gaps: list[Gap] = field(default_factory=list)
    missing_offsets: int = 0
    """Offsets within the ranges without a record: compacted, aborted, or transaction markers."""

    @classmethod
    def resumed(cls, tallies: Tallies, positions: Mapping[int, int], counters: Mapping[str, int]) -> CopyStats:
        """Return the figures that a resumed replay continues; ``counters`` is empty before the first save."""
        return cls(
            tallies=tallies.copy(),
            positions=dict(positions),
            read=counters.get("read", 0),
            seeded=counters.get("seeded", 0),
            restamped=counters.get("restamped", 0),
            missing_offsets=counters.get("missing_offsets", 0),
        )

    def counters(self) -> dict[str, int]:
        """Return the counters that a resumed replay continues."""
        return {
            "read": self.read,
            "seeded": self.seeded,
            "restamped": self.restamped,
            "missing_offsets": self.missing_offsets,
        }

    def add_gap(self, partition: int, offset: int) -> None:
        """Count the offsets without a record between the partition's position and ``offset``."""
        expected = self.positions[partition]
        self.missing_offsets += offset - expected
        if len(self.gaps) < _GAPS_MAX:
            why = "no records there (compaction, or transaction markers)"
            self.gaps.append(Gap(partition, expected, offset, why))


@dataclass(slots=True)
class Settled:
    """A point of the copy up to which all records are acknowledged."""

    offsets: dict[int, int]
    tallies: Tallies
    counters: dict[str, int]
    tail: dict[int, int]
    """The end offsets of the target; records that are not settled can only be behind them."""
