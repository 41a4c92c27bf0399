"""Checkpoints: snapshots of processes in the compacted topic ``NAME.checkpoints``, and the floor beside them.

A checkpoint lies in the partition of its process. The **floor** of a partition is the journal offset below which every
entry is contained in its process's checkpoint: a database's redo point. A recovery starts to read at
``max(checkpoint.offset + 1, floor)``. A checkpoint may only be used with the floor of the same moment, never with a
later one: the floor of its own transaction, or both as of one position of the partition (P7). Both carry the id of the
journal topic and a landmark in it; a checkpoint also carries the hash of its state. If one of these differs from what a
reader finds, the checkpoint is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Protocol

import msgspec
import orjson

from seekpoint.schemas.bodies.entry import is_process_key
from seekpoint.schemas.errors import JournalMismatch, NewerFormat, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct, built
from seekpoint.schemas.log.log_ports import Landmark
from seekpoint.schemas.state.process_state import FOLD_VERSION, State

FLOOR_KEY = b"\x00floor"
"""The key of the floor. It starts with a NUL byte, so no process id is equal to it."""

_FORMAT = 1
_logger = logging.getLogger("seekpoint.consumers")


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
        is_finished = _is_finished(self.state, self.digest)
        return CheckpointHead(self.offset, position, self.leader_epoch, self.digest, is_finished)

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
        line, state = _parts_of(data)
        return cls(
            process_id=line.process_id,
            partition=line.partition,
            offset=line.offset,
            leader_epoch=line.leader_epoch,
            topic_id=line.topic_id,
            seq=line.seq,
            epoch=line.epoch,
            fold_version=line.fold_version,
            state=state,
            digest=line.digest,
        )

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
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
            raise JournalMismatch("the bytes are no floor", cause=repr(exc)) from exc


def seek_point(checkpoint_offset: int | None, floor: int) -> int:
    """Return the journal offset at which a recovery starts to read. Without a checkpoint it is the floor."""
    return floor if checkpoint_offset is None else max(checkpoint_offset + 1, floor)


class CheckpointHead(FrozenStruct, frozen=True, gc=False):
    """A checkpoint without its state: what is kept in memory of it, a million times in a large journal."""

    offset: int
    """The journal offset of its state."""
    position: int
    """Its offset in the checkpoint partition."""
    leader_epoch: int = -1
    """The leader epoch of the journal's record at ``offset``."""
    digest: str = ""
    """The digest of its state, to compare other copies of the state with."""
    is_finished: bool = False
    """Whether its process has finished; False for a state that does not have its hash."""

    @classmethod
    def from_bytes(cls, data: bytes, position: int) -> CheckpointHead:
        """Decode the head of the checkpoint in the record at ``position``. Raises as ``Checkpoint.from_bytes``."""
        line, state = _parts_of(data)
        return cls(line.offset, position, line.leader_epoch, line.digest, _is_finished(state, line.digest))

    @property
    def landmark(self) -> Landmark:
        """The journal record that the checkpoint is as of."""
        return Landmark(self.offset, self.leader_epoch)


class PartitionHeads(msgspec.Struct):
    """The heads and the floor of a checkpoint partition as of ``position``."""

    heads: dict[bytes, CheckpointHead]
    floor: Floor | None
    """The newest floor that can be read. An older one is right too: it only makes readers start earlier."""
    position: int
    damaged: dict[bytes, SeekpointError] = {}
    """By process: why its newest checkpoint cannot be read. An older one lacks entries (P7), so it has none."""

    def apply(self, position: int, key: bytes, value: bytes | None, topic_id: str | None = None) -> None:
        """Apply one record, which replaces an earlier one of its key. One that is damaged harms only its key.

        With ``topic_id`` a floor of another journal topic is not used.
        """
        try:
            if key == FLOOR_KEY:
                floor = Floor.from_bytes(not_null(value))
                if topic_id not in (None, floor.topic_id):
                    raise JournalMismatch("a floor of another journal topic", found=floor.topic_id)
                self.floor = floor
            elif is_process_key(key):  # under no other key there is a process, and so nothing that could be lost
                self.heads[key] = CheckpointHead.from_bytes(not_null(value), position)
                self.damaged.pop(key, None)
        except (JournalMismatch, NewerFormat) as exc:
            exc.position = position if exc.position is None else exc.position
            if key == FLOOR_KEY:
                _logger.error("a floor is not used, the one before it is: %s", exc)
            else:
                self.heads.pop(key, None)
                self.damaged[key] = exc


def not_null(value: bytes | None) -> bytes:
    """Return ``value``. Raises ``JournalMismatch`` for a null: Seekpoint writes none, so it is no proof of absence."""
    if value is None:
        raise JournalMismatch("the record is a null, which another program wrote")
    return value


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


class _Line(msgspec.Struct, gc=False):
    """The first line of a record."""

    format: int
    process_id: str
    partition: int
    offset: int
    leader_epoch: int
    topic_id: str
    seq: int
    epoch: int
    fold_version: int
    digest: str


_LINE = msgspec.json.Decoder(built(_Line))
_FORMAT_ALONE = msgspec.json.Decoder(dict[str, Any])


def _parts_of(data: bytes) -> tuple[_Line, bytes]:
    """Return the first line and the state. Raises ``NewerFormat``, and ``JournalMismatch`` for other bytes."""
    text, _, state = data.partition(b"\n")
    try:
        line = _LINE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        found = _format_in(text)
        if found <= _FORMAT:
            raise JournalMismatch("the bytes are no checkpoint", cause=repr(exc)[:200]) from exc
    else:
        found = line.format
    if found > _FORMAT:
        raise NewerFormat("a checkpoint of a newer format", found=found, known=_FORMAT)
    if line.fold_version > FOLD_VERSION:
        raise NewerFormat("a checkpoint of a newer fold", found=line.fold_version, known=FOLD_VERSION)
    return line, state


def _format_in(text: bytes) -> int:
    """Return the format that a line names, which may lack what this format has; 0 if it names none."""
    try:
        found = _FORMAT_ALONE.decode(text).get("format")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
    return found if type(found) is int else 0


class _Ownership(msgspec.Struct):
    finished: bool = False


class _FinishedFlag(msgspec.Struct):
    """The one value of a state's JSON that a head needs, which is read without the rest."""

    ownership: _Ownership


_FINISHED = msgspec.json.Decoder(built(_FinishedFlag))


def _is_finished(state: bytes, digest: str) -> bool:
    """Return whether ``state`` is of a finished process, and has its hash."""
    if b'"finished":true' not in state:
        return False
    try:
        found = _FINISHED.decode(state).ownership.finished
    except msgspec.DecodeError:
        return False
    return found and _digest(state) == digest


def digest_of(state: State) -> str:
    """Return the digest that a checkpoint of ``state`` has."""
    return _digest(state.to_bytes())


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
