"""Trim a journal: delete the entries below the floor after checking the checkpoints that replace them.

Trimming is never automatic. Below the floor only the checkpoint of a process is left, so every checkpoint is read and
its hash compared first. Each process that loses entries must have a checkpoint that covers them, and its state is
recomputed from the log and compared. A degraded process stops the trim at its first entry, until a person has looked.
A process with attachments stops it at the oldest part of one, because no checkpoint has the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, CheckpointReader, Floor, PartitionHeads, read_heads
from seekpoint.consumers.checkpoints.recomputation import Expected, recompute
from seekpoint.consumers.log_reading.leader_epochs import lost_landmarks
from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.process_ids import pasted


class Deleter(Protocol):
    """Deletes entries of a journal."""

    def delete_below(self, partition: int, offset: int) -> None:
        """Delete the journal's records below ``offset``. Raises ``JournalUnavailable``."""


class Trimmed(FrozenStruct, frozen=True, kw_only=True):
    """The part of one partition that a trim deleted, or would delete."""

    partition: int
    low: int
    """The log's first offset before the trim."""
    floor: int | None
    """None if no projector has published one."""
    target: int
    """The log's first offset after the trim."""
    checkpoints: int
    """Checkpoints that were read and checked."""
    recomputed: int = 0
    """Checkpoints of processes that lose entries, recomputed from the log with the same result."""
    unproven: int = 0
    """Checkpoints of processes that lose entries and cannot be recomputed: no older state is left."""
    note: str = ""
    """Why the trim stops below the floor; empty if it does not."""

    @property
    def offsets(self) -> int:
        """The number of deleted offsets. There may be fewer records."""
        return max(0, self.target - self.low)


class Trim:
    """Trims a journal to its floors. Blocking."""

    def __init__(self, log: LogReader, checkpoints: CheckpointReader, deleter: Deleter) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._deleter = deleter

    def plan(self, partition: int) -> Trimmed:
        """Check everything and delete nothing.

        Raises ``JournalMismatch`` for an entry below the floor that no readable checkpoint has, for a checkpoint or a
        floor that does not fit the log, and ``CheckpointDiffers`` for a checkpoint that differs from the state that the
        log gives.
        """
        low, high = self._log.watermarks(partition)
        found = read_heads(self._checkpoints, partition)
        if found.floor is None:
            return Trimmed(partition=partition, low=low, floor=None, target=low, checkpoints=0, note="no floor yet")
        floor = self._checked(found.floor, partition, high)
        self._refuse_truncated(partition, found)
        target, note, covered = floor, "", dict[bytes, Expected]()
        for key in list(found.heads):
            state = self._state(partition, found, key)
            covered[key] = Expected(found.heads[key].position, state.offset, state.hash)
            first, attached = state.first_offset, min((each[0] for each in state.attached_at.values()), default=None)
            if state.degraded is not None and first is not None and low <= first < target:
                target, note = first, f"{key.decode()} is degraded: look with seekpoint log {pasted(key.decode())}"
            if attached is not None and low <= attached < target:
                target, note = (
                    attached,
                    f"{key.decode()} has an attachment there, which can be read until it is detached",
                )
        losing = {key: covered[key] for key in self._check_covered(partition, low, target, covered)}
        unproven = recompute(self._log, self._checkpoints, partition, low, losing)
        return Trimmed(
            partition=partition, low=low, floor=floor, target=max(low, target), checkpoints=len(covered), note=note,
            recomputed=len(losing) - len(unproven), unproven=len(unproven),
        )  # fmt: skip

    def run(self, partition: int) -> Trimmed:
        """Delete what ``plan`` returns."""
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

    def _refuse_truncated(self, partition: int, found: PartitionHeads) -> None:
        lost = lost_landmarks(self._log, partition, (head.landmark for head in found.heads.values()))
        for key, head in found.heads.items():
            if head.landmark in lost:
                raise JournalMismatch(
                    "a checkpoint depends on records that the log lost: the log was truncated",
                    partition=partition,
                    process_id=key.decode(errors="replace"),
                    offset=head.offset,
                )

    def _state(self, partition: int, found: PartitionHeads, key: bytes) -> State:
        position = found.heads[key].position
        value = self._checkpoints.at(partition, position, key)
        if value is None:  # compacted away meanwhile: a newer one replaced it
            value = self._newer(partition, found, key)
        return Checkpoint.from_bytes(value).verified(key.decode(), self._log.topic_id)

    def _newer(self, partition: int, found: PartitionHeads, key: bytes) -> bytes:
        again = read_heads(self._checkpoints, partition, found)
        head = again.heads.get(key)
        value = None if head is None else self._checkpoints.at(partition, head.position, key)
        if value is None:
            raise JournalMismatch(
                "a checkpoint that the floor relies on is gone", partition=partition, process_id=key.decode()
            )
        return value

    def _check_covered(self, partition: int, low: int, target: int, covered: Mapping[bytes, Expected]) -> set[bytes]:
        """Return the processes that lose entries. Raises ``JournalMismatch`` for an entry that no checkpoint covers."""
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
        """Return whether the record is an entry. Poison may be deleted: a dead letter keeps it."""
        return any(entries_of([record], self._log))
