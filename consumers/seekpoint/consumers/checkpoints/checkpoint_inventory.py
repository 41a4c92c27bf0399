"""The checkpoints of a partition: read at an assignment, then kept up to date by the projector that writes them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from seekpoint.consumers.checkpoints.checkpoint import (
    FLOOR_KEY,
    Checkpoint,
    CheckpointHead,
    CheckpointReader,
    Floor,
    not_null,
)
from seekpoint.consumers.log_reading.leader_epochs import lost_landmarks
from seekpoint.consumers.log_reading.lost_ends import refuse_lost
from seekpoint.schemas.bodies.entry import is_process_key
from seekpoint.schemas.errors import JournalMismatch, NewerFormat, SeekpointError
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.state.process_state import State

_logger = logging.getLogger("seekpoint.consumers")


@dataclass(slots=True)
class CheckpointInventory:
    """Heads of checkpoints and the floor. Checkpoints below the floor may be missing: nothing depends on them here."""

    partition: int
    topic_id: str
    start: int
    """The position at which reading started."""
    position: int = 0
    """The position below which the partition was read."""
    heads: dict[bytes, CheckpointHead] = field(default_factory=dict)
    damaged: set[bytes] = field(default_factory=set)
    """Processes whose newest checkpoint cannot be used and has to be written again."""
    published: Floor | None = None
    has_newer: bool = False
    """Whether one of them names a newer format or fold. Only a journal whose manifest was raised has such records."""

    @property
    def floor(self) -> int:
        """The published floor; 0 if there is none."""
        return 0 if self.published is None else self.published.offset

    def offset(self, key: bytes) -> int:
        """Return the journal offset of the checkpoint of ``key``; -1 if it has none at or above the floor."""
        head = self.heads.get(key)
        return -1 if head is None else head.offset

    def apply(self, position: int, key: bytes, value: bytes | None) -> None:
        """Apply one record. It replaces an earlier one of the same key."""
        try:
            if key == FLOOR_KEY:
                self._apply_floor(not_null(value))
            elif is_process_key(key):
                self.heads[key] = self._head(position, not_null(value))
                self.damaged.discard(key)
        except (JournalMismatch, NewerFormat) as exc:
            self.has_newer = self.has_newer or isinstance(exc, NewerFormat)
            if key == FLOOR_KEY:  # the one before it is right too: it only makes readers start earlier
                _logger.error("partition %d: a floor is not used: %s", self.partition, exc)
            else:
                self.mark_damaged(key, exc)

    def _head(self, position: int, value: bytes) -> CheckpointHead:
        checkpoint = Checkpoint.from_bytes(value)
        if checkpoint.topic_id != self.topic_id:
            raise JournalMismatch("the checkpoint is of another journal topic", found=checkpoint.topic_id)
        return checkpoint.head_at(position)

    def _apply_floor(self, value: bytes) -> None:
        floor = Floor.from_bytes(value)
        if floor.topic_id != self.topic_id:
            raise JournalMismatch("a floor of another journal topic", found=floor.topic_id)
        self.published = floor

    def mark_damaged(self, key: bytes, why: SeekpointError) -> None:
        """Note that the newest checkpoint of ``key`` cannot be used."""
        _logger.error("partition %d: a checkpoint of %r is not used: %s", self.partition, key, why)
        self.heads.pop(key, None)
        self.damaged.add(key)

    def since(self, floor: int, rewritten: Collection[bytes]) -> int:
        """Return the position before which every checkpoint is below ``floor`` once ``rewritten`` are written again."""
        here = (head.position for key, head in self.heads.items() if head.offset >= floor and key not in rewritten)
        return min(here, default=self.position)

    def committed(self, floor: Floor, checkpoints: Mapping[bytes, Checkpoint], positions: Mapping[bytes, int]) -> None:
        """Note that our transaction is in the log, and drop the heads below its floor."""
        self.note(floor, checkpoints, positions)
        self.heads = {key: head for key, head in self.heads.items() if head.offset >= floor.offset}

    def note(self, floor: Floor, checkpoints: Mapping[bytes, Checkpoint], positions: Mapping[bytes, int]) -> None:
        """Note that our transaction is in the log, and keep all heads."""
        for key, checkpoint in checkpoints.items():
            self.heads[key] = checkpoint.head_at(positions[key])
            self.damaged.discard(key)
        self.published = floor
        self.position = max([self.position, *(position + 1 for position in positions.values())])


def drop_lost(inventory: CheckpointInventory, log: LogReader) -> bool:
    """Leave out what stands on entries that the log lost; return whether the floor does. Raises ``LogTruncated``.

    The log's beginning takes the place of a lost floor: what was deleted below it is in the checkpoints that are left.
    """
    partition, floor = inventory.partition, inventory.published
    landmarks = {key: head.landmark for key, head in inventory.heads.items()}
    lost = lost_landmarks(log, partition, [*landmarks.values(), *([] if floor is None else [floor.landmark])])
    refuse_lost(log, partition, lost)
    for key in [key for key, landmark in landmarks.items() if landmark in lost]:
        inventory.mark_damaged(key, JournalMismatch("the log lost the checkpoint's last record: it was truncated"))
    if floor is None or floor.landmark not in lost:
        return False
    inventory.published = replace(floor, offset=log.watermarks(partition).low, leader_epoch=-1)
    return True


def read_inventory(
    reader: CheckpointReader, partition: int, topic_id: str, stop: int, hint: int
) -> CheckpointInventory:
    """Read the partition below ``stop``, from ``hint`` on. A ``hint`` of 0 reads all of it.

    If no floor behind ``hint`` confirms it, the partition is read from further back.
    """
    start = min(hint, stop)
    while True:
        found = CheckpointInventory(partition, topic_id, start, stop)
        for position, key, value in reader.records(partition, start, stop):
            found.apply(position, key, value)
        since = 0 if found.published is None else found.published.since
        if start <= since or start == 0:
            return found
        start = since


def stored_states(
    reader: CheckpointReader, inventory: CheckpointInventory
) -> Iterator[tuple[bytes, State, CheckpointHead]]:
    """Yield the state of every checkpoint. One that cannot be used is left out and marked as damaged."""
    for position, key, value in reader.records(inventory.partition, inventory.start, inventory.position):
        head = inventory.heads.get(key)
        if head is None or head.position != position or value is None:
            continue
        try:
            state = Checkpoint.from_bytes(value).verified(key.decode(), inventory.topic_id)
        except JournalMismatch as exc:
            inventory.mark_damaged(key, exc)
            continue
        yield key, state, head
