"""Checkpoints: snapshots of processes in the compacted topic ``NAME.checkpoints``, and the floor beside them.

A checkpoint lies in the partition of its process. The **floor** of a partition is the journal offset below which every
entry is contained in its process's checkpoint: a database's redo point. A recovery starts to read at
``max(checkpoint.offset + 1, floor)``. A checkpoint may only be used with the floor of the same moment, never with a
later one: the floor of its own transaction, or both as of one position of the partition (P7). Both carry the id of the
journal topic and a landmark in it; a checkpoint also carries the hash of its state. If one of these differs from what a
reader finds, the checkpoint is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Protocol

import msgspec
import orjson

from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Landmark
from seekpoint.schemas.state.process_state import FOLD_VERSION, State

__all__ = [
    "FLOOR_KEY",
    "Checkpoint",
    "CheckpointHead",
    "CheckpointReader",
    "Floor",
    "PartitionHeads",
    "digest_of",
    "read_heads",
    "seek_point",
]

FLOOR_KEY = b"\x00floor"
"""The key of the floor. It starts with a NUL byte, so no process id is equal to it."""

_FORMAT = 1


class Checkpoint(FrozenStruct, frozen=True, kw_only=True):
    """The state of one process as of one journal offset."""

    process_id: str
    partition: int
    offset: int
    leader_epoch: int
    """The leader epoch of the record there; -1 if unknown. Another one there later means a truncated log."""
    topic_id: str
    """The id of the journal topic to which the offsets belong."""
    seq: int
    epoch: int
    fold_version: int
    state: bytes
    digest: str
    """BLAKE2b-128 of ``state``, in hex."""

    @classmethod
    def of(cls, process_id: str, partition: int, state: State, topic_id: str, leader_epoch: int) -> Checkpoint:
        """Return a checkpoint of ``state``."""
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
        """The journal record that the checkpoint is as of."""
        return Landmark(self.offset, self.leader_epoch)

    def head_at(self, position: int) -> CheckpointHead:
        """Return the head of this checkpoint, which is the record at ``position``."""
        return CheckpointHead(self.offset, position, self.leader_epoch, self.digest, self.is_finished)

    @property
    def is_finished(self) -> bool:
        """Whether the state is of a finished process; False for a state that does not have its hash."""
        if b'"finished":true' not in self.state:
            return False
        try:
            found = _FINISHED.decode(self.state).ownership.finished
        except msgspec.DecodeError:
            return False
        return found and _digest(self.state) == self.digest

    def to_bytes(self) -> bytes:
        """Encode the record's value: a line of JSON, a newline, the state's bytes.

        The line can be read without the state.
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
        """Decode a checkpoint, but not its state. Raises ``NewerFormat``, and ``JournalMismatch`` if it is none."""
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
            raise JournalMismatch("the bytes are no checkpoint", cause=repr(exc)) from exc

    def verified(self, process_id: str, topic_id: str) -> State:
        """Return the state. Raises ``JournalMismatch`` if it cannot be used, ``NewerFormat`` of a newer fold."""
        if self.process_id != process_id:
            raise JournalMismatch("the checkpoint is of another process", found=self.process_id)
        if self.topic_id != topic_id:
            raise JournalMismatch("the checkpoint is of another journal topic", found=self.topic_id, expected=topic_id)
        if _digest(self.state) != self.digest:
            raise JournalMismatch("the checkpoint's state does not have its hash", offset=self.offset)
        state = State.from_bytes(self.state)
        if (state.offset, state.seq, state.epoch) != (self.offset, self.seq, self.epoch):
            raise JournalMismatch("the checkpoint's state is not the one that its head names", offset=self.offset)
        return state


class Floor(FrozenStruct, frozen=True, kw_only=True):
    """The offset below which every entry of the partition is contained in its process's checkpoint."""

    offset: int
    leader_epoch: int
    """The leader epoch of the record right below ``offset``; -1 if unknown."""
    topic_id: str
    since: int
    """The position of the checkpoint partition before which every checkpoint is below the floor. An assignment reads
    from there on."""

    @property
    def landmark(self) -> Landmark:
        """The record right below ``offset``. The record at ``offset`` often is not written yet."""
        return Landmark(self.offset - 1, self.leader_epoch)

    def to_bytes(self) -> bytes:
        """Encode the floor as JSON."""
        fields = {
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
            "topic_id": self.topic_id,
            "since": self.since,
        }
        return orjson.dumps({"format": _FORMAT, **fields})

    @classmethod
    def from_bytes(cls, data: bytes) -> Floor:
        """Decode a floor. Raises ``NewerFormat``, and ``JournalMismatch`` if ``data`` is none."""
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
            raise JournalMismatch("the bytes are no floor", cause=repr(exc)) from exc


def seek_point(checkpoint_offset: int | None, floor: int) -> int:
    """Return the journal offset at which a recovery starts to read. Without a checkpoint it is the floor."""
    return floor if checkpoint_offset is None else max(checkpoint_offset + 1, floor)


class CheckpointHead(FrozenStruct, frozen=True):
    """A checkpoint without its state: what is kept in memory of it."""

    offset: int
    """The journal offset of its state."""
    position: int
    """Its offset in the checkpoint partition."""
    leader_epoch: int = -1
    """The leader epoch of the journal's record at ``offset``."""
    digest: str = ""
    """The digest of its state, to compare other copies of the state with."""
    is_finished: bool = False
    """Whether its process has finished."""

    @property
    def landmark(self) -> Landmark:
        """The journal record that the checkpoint is as of."""
        return Landmark(self.offset, self.leader_epoch)


class PartitionHeads(msgspec.Struct):
    """The heads and the floor of a checkpoint partition as of ``position``."""

    heads: dict[bytes, CheckpointHead]
    floor: Floor | None
    position: int

    def apply(self, position: int, key: bytes, value: bytes | None) -> None:
        """Apply one record. It replaces an earlier one of the same key."""
        if value is None:
            self.heads.pop(key, None)
        elif key == FLOOR_KEY:
            self.floor = Floor.from_bytes(value)
        else:
            self.heads[key] = Checkpoint.from_bytes(value).head_at(position)


class CheckpointReader(Protocol):
    """Reads checkpoint partitions, always read_committed. Blocking, thread safe."""

    def end(self, partition: int) -> int:
        """Return the read-uncommitted end: the next position, open transactions included."""

    def stable_end(self, partition: int) -> int:
        """Return the last stable position: every transaction below it is decided."""

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Yield (position, key, value) of the committed records in [start, stop). Raises ``JournalUnavailable``."""

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """Return the value at exactly ``position`` under ``key``; None if it was compacted away."""


def read_heads(reader: CheckpointReader, partition: int, known: PartitionHeads | None = None) -> PartitionHeads:
    """Read the partition to its stable end. Continues ``known``, and changes it in place, if it is given."""
    found = known or PartitionHeads({}, None, 0)
    stop = reader.stable_end(partition)
    for position, key, value in reader.records(partition, found.position, stop):
        found.apply(position, key, value)
    found.position = max(found.position, stop)
    return found


class _Ownership(msgspec.Struct):
    finished: bool = False


class _FinishedFlag(msgspec.Struct):
    """The one value of a state's JSON that a head needs, which is read without the rest."""

    ownership: _Ownership


_FINISHED = msgspec.json.Decoder(_FinishedFlag)


def digest_of(state: State) -> str:
    """Return the digest that a checkpoint of ``state`` has."""
    return _digest(state.to_bytes())


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
