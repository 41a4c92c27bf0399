"""What a checkpoint partition says is saved: read at an assignment, kept up to date by the projector that writes it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, CheckpointReader, Floor, Saved
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.state.state import FOLD_VERSION, State

__all__ = ["CheckpointInventory", "read_saved", "saved_states"]

_logger = logging.getLogger("seekpoint.consumers")


@dataclass(slots=True)
class CheckpointInventory:
    """Heads of checkpoints and the floor. What lies below the floor may be missing: nothing depends on it."""

    partition: int
    topic_id: str
    start: int
    """It was read from here."""
    position: int = 0
    """It was read up to here."""
    heads: dict[bytes, Saved] = field(default_factory=dict)
    damaged: set[bytes] = field(default_factory=set)
    """Keys whose newest checkpoint cannot be used: to be written anew."""
    published: Floor | None = None

    @property
    def floor(self) -> int:
        """The published floor; 0 where none was published yet."""
        return 0 if self.published is None else self.published.offset

    def offset(self, key: bytes) -> int:
        """The journal offset ``key`` is saved as of; -1 if it is not, or only below the floor."""
        head = self.heads.get(key)
        return -1 if head is None else head.offset

    def take(self, position: int, key: bytes, value: bytes | None) -> None:
        """Note one record. A later one of the same key replaces the earlier."""
        if key == FLOOR_KEY:
            self._take_floor(value)
            return
        self.heads.pop(key, None)
        self.damaged.discard(key)
        if value is None:
            return
        try:
            checkpoint = Checkpoint.from_bytes(value)
        except JournalMismatch as exc:
            self.damage(key, exc)
            return
        if checkpoint.fold_version > FOLD_VERSION:
            raise NewerFormat(
                "a checkpoint of a newer fold",
                found=checkpoint.fold_version,
                known=FOLD_VERSION,
                process_id=checkpoint.process_id,
                partition=self.partition,
            )
        if checkpoint.topic_id == self.topic_id:
            self.heads[key] = checkpoint.saved_at(position)

    def _take_floor(self, value: bytes | None) -> None:
        floor = None if value is None else Floor.from_bytes(value)
        if floor is not None and floor.topic_id != self.topic_id:
            _logger.warning("partition %d: a floor of another journal topic is not used", self.partition)
            floor = None
        self.published = floor

    def damage(self, key: bytes, why: JournalMismatch) -> None:
        """The newest checkpoint of ``key`` cannot be used."""
        _logger.error("partition %d: a checkpoint of %r is not used: %s", self.partition, key, why)
        self.heads.pop(key, None)
        self.damaged.add(key)

    def since(self, floor: int, rewritten: Collection[bytes]) -> int:
        """The position before which every checkpoint is below ``floor``, once ``rewritten`` are written anew."""
        here = (head.position for key, head in self.heads.items() if head.offset >= floor and key not in rewritten)
        return min(here, default=self.position)

    def committed(self, floor: Floor, saved: Mapping[bytes, Checkpoint], positions: Mapping[bytes, int]) -> None:
        """A transaction of ours is in the log. What lies below its floor is forgotten."""
        self.note(floor, saved, positions)
        self.heads = {key: head for key, head in self.heads.items() if head.offset >= floor.offset}

    def note(self, floor: Floor, saved: Mapping[bytes, Checkpoint], positions: Mapping[bytes, int]) -> None:
        """A transaction of ours is in the log."""
        for key, checkpoint in saved.items():
            self.heads[key] = checkpoint.saved_at(positions[key])
            self.damaged.discard(key)
        self.published = floor
        self.position = max([self.position, *(position + 1 for position in positions.values())])


def read_saved(reader: CheckpointReader, partition: int, topic_id: str, stop: int, hint: int) -> CheckpointInventory:
    """The partition below ``stop``, from ``hint`` on, or from where its floor says. 0 reads the whole of it.

    A hint is not believed: where no floor is found behind it that covers it, the partition is read from further back.
    """
    start = min(hint, stop)
    while True:
        found = CheckpointInventory(partition, topic_id, start, stop)
        for position, key, value in reader.records(partition, start, stop):
            found.take(position, key, value)
        since = 0 if found.published is None else found.published.since
        if start <= since or start == 0:
            return found
        start = since


def saved_states(reader: CheckpointReader, saved: CheckpointInventory) -> Iterator[tuple[bytes, State, Saved]]:
    """Every saved state, one after the other. One that cannot be used is not given, and counts as damaged."""
    for position, key, value in reader.records(saved.partition, saved.start, saved.position):
        head = saved.heads.get(key)
        if head is None or head.position != position or value is None:
            continue
        try:
            state = Checkpoint.from_bytes(value).verified(key.decode(), saved.topic_id)
        except JournalMismatch as exc:
            saved.damage(key, exc)
            continue
        yield key, state, head
