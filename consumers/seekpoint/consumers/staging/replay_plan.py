"""What a replay is asked to do: plain data."""

from __future__ import annotations

import json
from dataclasses import field
from hashlib import blake2b
from typing import Any

from seekpoint.consumers.staging.copy.headers import STRIPPED
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.partitioning import Partitions
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.copy.transform import check_prefix
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.schemas.dataclass import dataclass

__all__ = ["Plan"]


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
