"""Trimming: the journal's entries below the floor are deleted, once what stands in for them was read and checked.

Never automatic. Below the floor a process is its checkpoint and nothing else, so every checkpoint is read and its hash
compared first, and every process with an entry to be deleted must have one that covers it. These are folded anew from
the log, and must come out as the checkpoint says. A process that is degraded stops the trim at its first entry: a
person has not looked yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, CheckpointReader, Floor, Partition, read_partition
from seekpoint.consumers.checkpoints.recomputation import Expected, recompute
from seekpoint.consumers.log_reading.leader_epochs import untrue
from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import JournalMismatch, UndecodableRecord
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.state.state import State

__all__ = ["Deleter", "Trim", "Trimmed"]


class Deleter(Protocol):
    """Deletes entries."""

    def delete_below(self, partition: int, offset: int) -> None:
        """Delete the journal's records below ``offset``. Raises ``JournalUnavailable``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What a trim did, or would do, to one partition."""

    partition: int
    low: int
    """The log's first offset before the trim."""
    floor: int | None
    """None: no projector has published one."""
    target: int
    """The log's first offset after it."""
    checkpoints: int
    """Checkpoints that were read and found whole."""
    recomputed: int = 0
    """Of those, which lose entries: they were folded anew from the log, with the same result."""
    unproven: int = 0
    """Those that lose entries and could not be folded anew: an earlier trim and compaction left no older state."""
    note: str = ""
    """Why it stops where it does, if not at the floor."""

    @property
    def offsets(self) -> int:
        """Offset slots deleted; records may be fewer."""
        return max(0, self.target - self.low)


class Trim:
    """Trims one journal to its floors. Blocking."""

    def __init__(self, log: LogReader, checkpoints: CheckpointReader, deleter: Deleter) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._deleter = deleter

    def plan(self, partition: int) -> Trimmed:
        """Read and check everything; delete nothing.

        Raises ``JournalMismatch`` for a checkpoint or a floor that is not whole, not this topic's, or missing, and
        ``CheckpointDiffers`` for a checkpoint that the log does not lead to.
        """
        low, high = self._log.watermarks(partition)
        found = read_partition(self._checkpoints, partition)
        if found.floor is None:
            return Trimmed(partition=partition, low=low, floor=None, target=low, checkpoints=0, note="no floor yet")
        floor = self._checked(found.floor, partition, high)
        self._refuse_truncated(partition, found)
        target, note, covered = floor, "", dict[bytes, Expected]()
        for key in list(found.saved):
            state = self._state(partition, found, key)
            covered[key] = Expected(found.saved[key].position, state.offset, state.hash)
            first = state.first_offset
            if state.degraded is not None and first is not None and low <= first < target:
                target, note = first, f"{key.decode()} is degraded: look with seekpoint log {key.decode()}"
        losing = {key: covered[key] for key in self._check_covered(partition, low, target, covered)}
        unproven = recompute(self._log, self._checkpoints, partition, low, losing)
        return Trimmed(
            partition=partition, low=low, floor=floor, target=max(low, target), checkpoints=len(covered), note=note,
            recomputed=len(losing) - len(unproven), unproven=len(unproven),
        )  # fmt: skip

    def run(self, partition: int) -> Trimmed:
        """``plan``, then delete what it says."""
        planned = self.plan(partition)
        if planned.target > planned.low:
            self._deleter.delete_below(partition, planned.target)
        return planned

    def _checked(self, floor: Floor, partition: int, high: int) -> int:
        if floor.topic_id != self._log.topic_id:
            raise JournalMismatch("the floor is of another journal topic", partition=partition, found=floor.topic_id)
        if floor.offset > high:
            raise JournalMismatch(
                "the floor lies beyond the log's end: entries were lost",
                partition=partition,
                floor=floor.offset,
                high=high,
            )
        return floor.offset

    def _refuse_truncated(self, partition: int, found: Partition) -> None:
        gone = untrue(self._log, partition, (saved.landmark for saved in found.saved.values()))
        for key, saved in found.saved.items():
            if saved.landmark in gone:
                raise JournalMismatch(
                    "a checkpoint stands on records that are no more: the log was truncated",
                    partition=partition,
                    process_id=key.decode(errors="replace"),
                    offset=saved.offset,
                )

    def _state(self, partition: int, found: Partition, key: bytes) -> State:
        position = found.saved[key].position
        value = self._checkpoints.at(partition, position, key)
        if value is None:  # compacted between two looks: a newer one is there
            value = self._newer(partition, found, key)
        return Checkpoint.from_bytes(value).verified(key.decode(), self._log.topic_id)

    def _newer(self, partition: int, found: Partition, key: bytes) -> bytes:
        again = read_partition(self._checkpoints, partition, found)
        value = self._checkpoints.at(partition, again.saved[key].position, key)
        if value is None:
            raise JournalMismatch(
                "a checkpoint that the floor relies on is gone", partition=partition, process_id=key.decode()
            )
        return value

    def _check_covered(self, partition: int, low: int, target: int, covered: Mapping[bytes, Expected]) -> set[bytes]:
        """Every entry to be deleted belongs to a process whose checkpoint is not older than it: these processes."""
        losing: set[bytes] = set()
        for batch in self._log.read(partition, low, target) if low < target else ():
            for record in batch.records:
                checkpoint = covered.get(record.key or b"")
                if checkpoint is not None and checkpoint.offset >= record.offset:
                    losing.add(record.key or b"")
                elif self._is_entry(record):
                    raise JournalMismatch(
                        "an entry below the floor is in no checkpoint: nothing is deleted",
                        partition=partition,
                        offset=record.offset,
                        process_id=(record.key or b"").decode("utf-8", "replace"),
                    )
        return losing

    def _is_entry(self, record: Record) -> bool:
        try:
            entry_of(record, self._log.codec, self._log.partitions)
        except UndecodableRecord:
            return False  # poison: a dead letter keeps it
        return True
