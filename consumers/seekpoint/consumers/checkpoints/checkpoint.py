"""Checkpoints: snapshots of processes in the compacted topic ``NAME.checkpoints``, and the floor beside them.

A checkpoint's partition is its process's. The **floor** of a partition is the journal offset below which no process
has an entry that is missing from its checkpoint: a database's redo point. A recovery starts to read at
``max(checkpoint.offset + 1, floor)``; a checkpoint may only be used with the floor as of the same moment, never with a
later one: the floor of its own transaction, or both as of one position of the partition (P7). Both carry the journal
topic's id and a landmark in it; a checkpoint also the hash of its state: what does not fit is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple, Protocol

import orjson

from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.log.log_ports import Landmark
from seekpoint.schemas.state.state import FOLD_VERSION, State

__all__ = [
    "FLOOR_KEY",
    "Checkpoint",
    "CheckpointReader",
    "Floor",
    "Partition",
    "Saved",
    "digest_of",
    "read_partition",
    "seek_point",
    "take",
]

FLOOR_KEY = b"\x00floor"
"""The floor's key starts with a NUL byte: no process id can collide."""

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of one process as of one journal offset."""

    process_id: str
    partition: int
    offset: int
    leader_epoch: int
    """Of the record at ``offset``; -1 where it is not known. Another one there later means a truncated log."""
    topic_id: str
    """The journal topic's: offsets mean nothing without it."""
    seq: int
    epoch: int
    fold_version: int
    state: bytes
    digest: str
    """BLAKE2b-128 of ``state``, in hex."""

    @classmethod
    def of(cls, process_id: str, partition: int, state: State, topic_id: str, leader_epoch: int) -> Checkpoint:
        """A checkpoint of ``state``."""
        data = state.to_bytes()
        return cls(
            process_id=process_id,
            partition=partition,
            offset=state.offset,
            leader_epoch=leader_epoch,
            topic_id=topic_id,
            seq=state.seq,
            epoch=state.epoch,
            fold_version=FOLD_VERSION,
            state=data,
            digest=_digest(data),
        )

    @property
    def landmark(self) -> Landmark:
        """The record it stands on."""
        return Landmark(self.offset, self.leader_epoch)

    def saved_at(self, position: int) -> Saved:
        """What is kept in memory of it, as the record at ``position``."""
        return Saved(self.offset, position, self.leader_epoch, self.digest)

    def to_bytes(self) -> bytes:
        """The record's value: a line of JSON about it, a newline, the state's bytes.

        Its head can be read without the state.
        """
        head = {
            "format": _FORMAT,
            "process_id": self.process_id,
            "partition": self.partition,
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
            "topic_id": self.topic_id,
            "seq": self.seq,
            "epoch": self.epoch,
            "fold_version": self.fold_version,
            "digest": self.digest,
        }
        return orjson.dumps(head) + b"\n" + self.state

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint:
        """The checkpoint in ``data``, its state unread. ``NewerFormat``, or ``JournalMismatch`` if it is none."""
        try:
            line, _, state = data.partition(b"\n")
            head = orjson.loads(line)
            if head["format"] > _FORMAT:
                raise NewerFormat("a checkpoint of a newer format", found=head["format"], known=_FORMAT)
            return cls(
                process_id=str(head["process_id"]),
                partition=int(head["partition"]),
                offset=int(head["offset"]),
                leader_epoch=int(head["leader_epoch"]),
                topic_id=str(head["topic_id"]),
                seq=int(head["seq"]),
                epoch=int(head["epoch"]),
                fold_version=int(head["fold_version"]),
                state=state,
                digest=str(head["digest"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("bytes that are no checkpoint", cause=repr(exc)) from exc

    def verified(self, process_id: str, topic_id: str) -> State:
        """The state. ``JournalMismatch`` saying why it may not be used, ``NewerFormat`` if a newer fold wrote it."""
        if self.process_id != process_id:
            raise JournalMismatch("the checkpoint is another process's", found=self.process_id)
        if self.topic_id != topic_id:
            raise JournalMismatch("the checkpoint is of another journal topic", found=self.topic_id, expected=topic_id)
        if _digest(self.state) != self.digest:
            raise JournalMismatch("the checkpoint's state does not have its hash", offset=self.offset)
        state = State.from_bytes(self.state)
        if (state.offset, state.seq, state.epoch) != (self.offset, self.seq, self.epoch):
            raise JournalMismatch("the checkpoint's state is not the one its head names", offset=self.offset)
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Below ``offset`` no process has an entry that is missing from its checkpoint."""

    offset: int
    leader_epoch: int
    """Of the record right below ``offset``, the last that it says something of; -1 where it is not known."""
    topic_id: str
    since: int
    """The checkpoint partition's position before which every checkpoint is below the floor: an assignment reads on
    from there."""

    @property
    def landmark(self) -> Landmark:
        """The record it stands on. The one at ``offset`` often is not written yet."""
        return Landmark(self.offset - 1, self.leader_epoch)

    def to_bytes(self) -> bytes:
        """As JSON."""
        fields = {
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
            "topic_id": self.topic_id,
            "since": self.since,
        }
        return orjson.dumps({"format": _FORMAT, **fields})

    @classmethod
    def from_bytes(cls, data: bytes) -> Floor:
        """The floor in ``data``. ``NewerFormat``, or ``JournalMismatch`` if it is none."""
        try:
            raw = orjson.loads(data)
            if raw["format"] > _FORMAT:
                raise NewerFormat("a floor of a newer format", found=raw["format"], known=_FORMAT)
            return cls(
                offset=int(raw["offset"]),
                leader_epoch=int(raw["leader_epoch"]),
                topic_id=str(raw["topic_id"]),
                since=int(raw["since"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("bytes that are no floor", cause=repr(exc)) from exc


def seek_point(checkpoint_offset: int | None, floor: int) -> int:
    """Where a recovery starts to read the journal. Without a checkpoint: at the floor."""
    return floor if checkpoint_offset is None else max(checkpoint_offset + 1, floor)


class Saved(NamedTuple):
    """Where a process's newest checkpoint is."""

    offset: int
    """The journal offset it is as of."""
    position: int
    """The record's own offset in the checkpoint partition."""
    leader_epoch: int = -1
    """Of the journal's record at ``offset``."""
    digest: str = ""
    """Of its state: what another copy of it is compared with."""

    @property
    def landmark(self) -> Landmark:
        """The journal's record that the checkpoint stands on."""
        return Landmark(self.offset, self.leader_epoch)


@dataclass(slots=True)
class Partition:
    """A checkpoint partition as it was read up to ``position``: heads only, no states."""

    saved: dict[bytes, Saved]
    floor: Floor | None
    position: int


class CheckpointReader(Protocol):
    """Reads checkpoint partitions; read_committed throughout. Blocking, thread safe."""

    def end(self, partition: int) -> int:
        """The read-uncommitted end: the next position, open transactions included."""

    def stable_end(self, partition: int) -> int:
        """The last stable position: everything below it is decided."""

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """(position, key, value) of the committed records in [start, stop), in order. Raises ``JournalUnavailable``."""

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """The value at exactly ``position`` if it is there under ``key``; None if it was compacted away."""


def read_partition(reader: CheckpointReader, partition: int, known: Partition | None = None) -> Partition:
    """The partition read to its stable end, going on from ``known`` (changed in place) or from its beginning."""
    found = known or Partition({}, None, 0)
    stop = reader.stable_end(partition)
    for position, key, value in reader.records(partition, found.position, stop):
        take(found, position, key, value)
    found.position = max(found.position, stop)
    return found


def take(found: Partition, position: int, key: bytes, value: bytes | None) -> None:
    """Note one record. A later one of the same key replaces the earlier."""
    if value is None:
        found.saved.pop(key, None)
    elif key == FLOOR_KEY:
        found.floor = Floor.from_bytes(value)
    else:
        found.saved[key] = Checkpoint.from_bytes(value).saved_at(position)


def digest_of(state: State) -> str:
    """The digest that a checkpoint of ``state`` has."""
    return _digest(state.to_bytes())


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
