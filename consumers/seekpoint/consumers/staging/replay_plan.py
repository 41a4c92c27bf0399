"""The plan of a replay: what it selects, changes and how fast it sends, as plain data."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from msgspec import field

from seekpoint.consumers.staging.copy.headers import STRIPPED
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.partitioning import Partitions
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.copy.transform import check_prefix
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.schemas.frozen_struct import FrozenStruct


class Plan(FrozenStruct, frozen=True, kw_only=True):
    """The options of a replay. Raises ``ReplayRefused`` or ``InvalidSetting`` for options that are not possible."""

    selection: Selection = field(default_factory=Selection)
    pace: Pace = field(default_factory=Pace)
    partitions: Partitions = Partitions.AUTO
    prefix: str = ""
    """The text before the id of each process, in key and entry."""
    masks: MaskRules | None = None
    seeded: bool = False
    """Whether each process starts from its state at the start of the range."""
    strip_headers: tuple[str, ...] = STRIPPED

    def __post_init__(self) -> None:
        if self.prefix:
            check_prefix(self.prefix)

    @property
    def is_plain(self) -> bool:
        """Whether every record of the ranges is copied unchanged."""
        return self.selection.is_whole and not self.prefix and self.masks is None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, equal for equal plans. It has a digest of the masks, and nothing of their key."""
        return {
            "selection": self.selection.to_dict(),
            "pace": self.pace.to_dict(),
            "partitions": str(self.partitions),
            "prefix": self.prefix,
            "masks": None if self.masks is None else self.masks.digest,
            "seeded": self.seeded,
            "strip_headers": list(self.strip_headers),
        }

    def to_audit_dict(self) -> dict[str, Any]:
        """Return plain data for the target's audit. While values are masked, it hides what the selection names."""
        facts = self.to_dict()
        if self.masks is not None:
            selection = facts["selection"]
            hidden = {name: len(selection[name]) for name in ("processes", "actors", "headers") if selection[name]}
            where = None if selection["where"] is None else "hidden: values are masked"
            facts["selection"] = {**selection, **hidden, "where": where}
        return facts

    def digest(self, source: str, target: str) -> str:
        """Return an id of this plan for these locations. It ignores the pace, which may differ in a resumed replay."""
        data = {**self.to_dict(), "pace": None, "source": source, "target": target}
        return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=6).hexdigest()
