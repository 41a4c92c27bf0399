"""Choose the partition of the target for each record: the same number, or by key."""

from __future__ import annotations

from enum import StrEnum

from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.partition import partition_of


class Partitions(StrEnum):
    """The way in which records are assigned to the target's partitions."""

    AUTO = "auto"
    """``KEEP`` where both topics have equally many partitions and keys do not change, else ``BY_KEY``."""
    KEEP = "keep"
    BY_KEY = "by-key"


class Partitioner:
    """The choice of a partition: the same number (``keeps_partitions``), else murmur2 of the key.

    A record without a key goes by its partition number. ``journal_partitions`` is the number of partitions of a
    source that is a journal: a record in a wrong partition goes to a wrong partition again, so that it does not
    become an entry.
    """

    def __init__(self, keeps_partitions: bool, partitions: int, journal_partitions: int | None = None) -> None:
        self.keeps_partitions = keeps_partitions
        self.partitions = partitions
        self._journal_partitions = journal_partitions

    def partition_for(self, key: bytes | None, partition: int, old_key: bytes | None = None) -> int:
        """Return the target's partition for ``key``; in the source it was ``old_key`` in ``partition``."""
        if self.keeps_partitions:
            return partition
        if key is None:
            return partition % self.partitions
        home = partition_of(key, self.partitions)
        partitions = self._journal_partitions
        if partitions is None or old_key is None or partition_of(old_key, partitions) == partition:
            return home
        return (home + 1) % self.partitions


def choose_partitioner(
    requested: Partitions, source: int, target: int, *, keys_change: bool, is_journal: bool
) -> Partitioner:
    """Return the partitioner for these numbers of partitions. Raises ``ReplayRefused`` if ``KEEP`` is not possible."""
    journal_partitions = source if is_journal else None
    if requested is Partitions.KEEP and target < source:
        raise ReplayRefused(
            "the target has fewer partitions than the source", source_partitions=source, target_partitions=target,
            hint="assign records by key: --partitions by-key",
        )  # fmt: skip
    if requested is Partitions.KEEP and keys_change:
        raise ReplayRefused(
            "records whose keys change cannot keep their partition: readers would not find the process",
            hint="leave --partitions out",
        )
    if requested is Partitions.AUTO:
        return Partitioner(source == target and not keys_change, target, journal_partitions)
    return Partitioner(requested is Partitions.KEEP, target, journal_partitions)
