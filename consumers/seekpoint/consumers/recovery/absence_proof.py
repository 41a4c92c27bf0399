"""Proof that processes do not exist: every key of a partition that a recovery could find something under.

Made once, by one read of keys from the floor (without one: from offset 0), and good as long as whoever made it notes
what comes behind ``stop``.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["Proof", "prove"]

_OFFSETS_MAX, _KEYS_MAX = 2_000_000, 200_000
"""More is not read, or kept, for a proof: opens take the ordinary way then."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What there is in a partition below ``stop``."""

    tier: Tier
    start: int
    """Read from here on; below it stands only what has a checkpoint."""
    stop: int
    log_start: int
    keys: Set[bytes | None]
    is_saved: Callable[[bytes], bool]
    """Whether there may be a checkpoint under a key. Costs nothing; where it is not known any more: True."""


def prove(recoverer: Recoverer, partition: int, stop: int) -> Proof | None:
    """Read what there is below ``stop``; None if it is too much, or the log's beginning is gone without a floor.

    Blocks. Raises what a recovery raises.
    """
    while True:
        marks = recoverer.log.watermarks(partition)
        try:
            return _proof(recoverer, partition, stop, marks)
        except JournalGap:
            if not recoverer.is_trimmed_since(partition, marks.low):
                raise  # else a newer floor stands for what is gone


def _proof(recoverer: Recoverer, partition: int, stop: int, marks: Watermarks) -> Proof | None:
    base = recoverer.bases.floor_base(partition, marks)
    start = 0 if base is None else base.seek_point
    if start < marks.low or stop - start > _OFFSETS_MAX or stop > marks.high:
        return None
    keys: set[bytes | None] = set()
    first = None
    for batch in recoverer.log.read(partition, start, stop):
        keys.update(record.key for record in batch.records)
        first = first or batch.first
        if len(keys) > _KEYS_MAX:
            return None
    if base is None:
        return Proof(Tier.SCAN, start, stop, marks.low, keys, lambda key: False)
    recoverer.refuse_truncated(partition, base.landmarks, False, first, marks)
    index = recoverer.bases.index
    assert index is not None
    position = index.position(partition)
    return Proof(Tier.CHECKPOINT, start, stop, marks.low, keys, lambda key: index.may_hold(partition, key, position))
