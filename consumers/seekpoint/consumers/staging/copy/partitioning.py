"""Which partition of the target a record goes to: its own, or the one that its key has there."""

from __future__ import annotations

from enum import StrEnum

from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.partition import partition_of

__all__ = ["Partitioner", "Partitions", "choose"]


class Partitions(StrEnum):
    """What becomes of partitions."""

    AUTO = "auto"
    """Kept where both topics have equally many and keys stay as they are; else by key."""
    KEEP = "keep"
    BY_KEY = "by-key"


class Partitioner:
    """``keeps``: a record stays in its partition. Else murmur2 of its key; one without a key by its partition.

    ``home_of`` is the number of partitions of a source in which only a key's own partition counts (a journal): what
    lay in a wrong one there is laid into a wrong one here too, or the fold would take for an entry what was none.
    """

    def __init__(self, keeps: bool, partitions: int, home_of: int | None = None) -> None:
        self.keeps = keeps
        self.partitions = partitions
        self._home_of = home_of

    def of(self, key: bytes | None, partition: int, old_key: bytes | None = None) -> int:
        """The target's partition of a record with ``key``, from ``partition``, where its key was ``old_key``."""
        if self.keeps:
            return partition
        if key is None:
            return partition % self.partitions
        home = partition_of(key, self.partitions)
        if self._home_of is None or old_key is None or partition_of(old_key, self._home_of) == partition:
            return home
        return (home + 1) % self.partitions


def choose(wish: Partitions, source: int, target: int, *, keys_change: bool, is_journal: bool) -> Partitioner:
    """How a topic of ``source`` partitions is laid into one of ``target``. Raises ``ReplayRefused``."""
    home_of = source if is_journal else None
    if wish is Partitions.KEEP and target < source:
        raise ReplayRefused(
            "the target has fewer partitions than the source", source_partitions=source, target_partitions=target,
            hint="let records go where their keys lead: --partitions by-key",
        )  # fmt: skip
    if wish is Partitions.KEEP and keys_change:
        raise ReplayRefused(
            "records whose keys change cannot keep their partition: nobody would find the process there",
            hint="leave --partitions out",
        )
    if wish is Partitions.AUTO:
        return Partitioner(source == target and not keys_change, target, home_of)
    return Partitioner(wish is Partitions.KEEP, target, home_of)
