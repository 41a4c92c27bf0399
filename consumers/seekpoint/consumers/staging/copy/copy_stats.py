"""What a copy counts while it runs, and what of it is settled."""

from __future__ import annotations

from dataclasses import dataclass, field

from seekpoint.consumers.staging.copy.pace import Lateness
from seekpoint.consumers.staging.copy.selection import Gap
from seekpoint.consumers.staging.copy.tallies import Tallies

__all__ = ["CopyStats", "Settled"]

_HOLES_MAX = 1_000


@dataclass(slots=True)
class CopyStats:
    """What a copy counts while it runs."""

    tallies: Tallies = field(default_factory=Tallies)
    positions: dict[int, int] = field(default_factory=dict)
    """The next offset of each source partition."""
    read: int = 0
    sent: int = 0
    acknowledged: int = 0
    already_there: int = 0
    seeded: int = 0
    restamped: int = 0
    """Records whose time (0, or none) Kafka's client cannot carry."""
    lateness: Lateness = field(default_factory=Lateness)
    behind_s: float = 0.0
    """How late the newest record went out."""
    first_ms: int | None = None
    last_ms: int | None = None
    holes: list[Gap] = field(default_factory=list)
    missing_offsets: int = 0
    """Offsets within the stretches without a record: compacted, aborted, or a transaction's mark."""

    def counters(self) -> dict[str, int]:
        """What a resumed replay goes on counting."""
        names = ("read", "seeded", "restamped", "missing_offsets")
        return {name: getattr(self, name) for name in names}

    def hole(self, partition: int, offset: int) -> None:
        """Between the partition's position and ``offset`` there is no record."""
        expected = self.positions[partition]
        self.missing_offsets += offset - expected
        if len(self.holes) < _HOLES_MAX:
            why = "no records there (compaction, or a transaction's marks)"
            self.holes.append(Gap(partition, expected, offset, why))


@dataclass(slots=True)
class Settled:
    """Up to where everything was acknowledged."""

    offsets: dict[int, int]
    tallies: Tallies
    counters: dict[str, int]
    tail: dict[int, int]
