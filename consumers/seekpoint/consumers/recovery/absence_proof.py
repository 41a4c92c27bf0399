"""Proof that processes do not exist: every key of a partition under which a recovery could find something.

The proof takes one read of keys from the floor on, or from offset 0 without a floor. It stays valid as long as its
holder adds the keys of later entries.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from seekpoint.consumers.log_reading.lost_ends import stands_on_lost
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Watermarks

_OFFSETS_MAX, _KEYS_MAX = 2_000_000, 200_000
"""The most that is read, and kept, for a proof. Without a proof a process is opened with a recovery."""


class AbsenceProof(FrozenStruct, frozen=True):
    """The keys of a partition below ``stop``."""

    tier: Tier
    start: int
    """The offset at which reading started. Every process with an entry below it has a checkpoint."""
    stop: int
    log_start: int
    keys: Set[bytes | None]
    may_have_checkpoint: Callable[[bytes], bool]
    """Returns whether a key may have a checkpoint. Reads nothing; True if that is not known any more."""


def prove_absence(recoverer: Recoverer, partition: int, stop: int) -> AbsenceProof | None:
    """Read the keys below ``stop``. None if there are too many, or the log was trimmed and has no usable floor.

    Blocks. Raises what a recovery raises.
    """
    while True:
        marks = recoverer.log.watermarks(partition)
        try:
            return _prove(recoverer, partition, stop, marks)
        except JournalGap:
            if not recoverer.is_trimmed_since(partition, marks.low):
                raise  # otherwise a newer floor covers the deleted entries


def _prove(recoverer: Recoverer, partition: int, stop: int, marks: Watermarks) -> AbsenceProof | None:
    log, finder = recoverer.log, recoverer.base_finder
    base = finder.floor_base(partition, marks)
    start = 0 if base is None else base.seek_point
    if start < marks.low or stop - start > _OFFSETS_MAX or stop > marks.high:
        return None
    keys: set[bytes | None] = set()
    first = None
    for batch in log.read(partition, start, stop):
        keys.update(record.key for record in batch.records)
        first = first or batch.first
        if len(keys) > _KEYS_MAX:
            return None
    if base is None:
        return AbsenceProof(Tier.SCAN, start, stop, marks.low, keys, lambda key: False)
    if stands_on_lost(log, partition, base.landmarks, first, marks):
        return None
    index = finder.index
    assert index is not None
    position = index.position(partition)

    def may_have_checkpoint(key: bytes) -> bool:
        return index.may_contain(partition, key, position)

    return AbsenceProof(Tier.CHECKPOINT, start, stop, marks.low, keys, may_have_checkpoint)
