"""The request of one recovery for a base, and what is found: a base, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Landmark
from seekpoint.schemas.state.process_state import State

if TYPE_CHECKING:
    from seekpoint.consumers.view.view_store import ViewLookup


class Unusable(Exception):
    """Why a base cannot be used. ``is_expected``: nothing is wrong, it does not exist yet or is not for this point.

    ``is_damage``: the record of this process is wrong, and those of others need not be.
    """

    def __init__(self, reason: str, *, is_expected: bool = False, is_damage: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_expected = is_expected
        self.is_damage = is_damage


class Base(FrozenStruct, frozen=True):
    """A state as of everything below ``seek_point``."""

    tier: Tier
    state: State
    seek_point: int
    landmarks: tuple[Landmark, ...] = ()
    """Records that the state depends on. If the log has another record at one of them, the log was truncated."""
    floor_unknown: bool = False
    """Whether the seek point is a floor whose own record is not among the landmarks."""


class Search(msgspec.Struct):
    """The request of one recovery, and what the view answered."""

    process_id: str
    key: bytes
    partition: int
    seq: int | None = None
    """The base must lie before this seq."""
    stop: int | None = None
    """The base must not contain this offset or a later one."""
    lookup: ViewLookup | None = None
    notes: list[str] = []

    @property
    def is_past(self) -> bool:
        """Whether a point in the past is requested."""
        return self.seq is not None or self.stop is not None

    @property
    def has_no_view(self) -> bool:
        """Whether the view answered that the partition has no view."""
        return self.lookup is not None and self.lookup.meta is None

    def refuse_newer(self, state: State) -> None:
        """Raise ``Unusable`` if ``state`` is newer than the requested point."""
        if (self.stop is not None and state.offset >= self.stop) or (self.seq is not None and state.seq >= self.seq):
            raise Unusable("it is newer than the requested point", is_expected=True)
