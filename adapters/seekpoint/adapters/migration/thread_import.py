"""Find what of a source's thread its process lacks, as operations that the adapter for LangGraph writes. Pure."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from seekpoint.adapters.langgraph.stored_parts import (
    Put,
    PutWrites,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    Version,
)
from seekpoint.adapters.langgraph.thread_content import TaskWrites, ThreadContent
from seekpoint.adapters.langgraph.thread_history import ThreadHistory
from seekpoint.adapters.migration.existing_processes import other_content
from seekpoint.adapters.migration.msgpack_spans import is_snapshot
from seekpoint.adapters.migration.opaque_values import OpaqueSerializer, Typed, are_equal
from seekpoint.adapters.migration.source_checkpoints import SourceCheckpoint, SourceWrite
from seekpoint.errors import Refused

_EMPTY: Typed = ("empty", b"")
_Place = tuple[str, str]


@dataclass(slots=True)
class ThreadImport:
    """An import of one thread: what its process has, and what is still to be written."""

    thread_id: str
    process_id: str
    history: ThreadHistory
    serde: OpaqueSerializer
    newest: dict[str, str] = field(default_factory=dict)
    """The newest checkpoint of each namespace."""
    context: dict[_Place, tuple[Version, str]] = field(default_factory=dict)
    """A channel in the newest checkpoint of a namespace: its version, and the digest of its value."""
    snapshots: dict[_Place, set[Version]] = field(default_factory=dict)
    """The versions of delta channels at which a checkpoint of this import has a snapshot."""
    has_gone_on: bool = False
    """Whether a graph has gone on in the journal after an earlier import."""

    @classmethod
    def into(
        cls, content: ThreadContent, history: ThreadHistory, *, thread_id: str, process_id: str,
        serde: OpaqueSerializer, places: Collection[_Place],
    ) -> ThreadImport:  # fmt: skip
        """Return the import into a process. ``places`` are namespace and id of each checkpoint of the source."""
        one = cls(thread_id, process_id, history, serde)
        known = {(ns, name) for ns, by_id in history.checkpoints.items() for name in by_id}
        one.has_gone_on = bool(known - set(places))
        for ns, space in content.namespaces.items():
            if space.checkpoint is not None:
                one.newest[ns] = space.checkpoint.id
            for channel, value in space.channels.items():
                one.context[ns, channel] = value.version, _digest_stored(value)
        return one

    def missing(self, one: SourceCheckpoint) -> Iterator[Put | PutWrites]:
        """Yield what stores the checkpoint, and those of its writes, that the process lacks.

        Raises ``Refused`` if the process has the checkpoint with other content, or if something is missing although a
        graph has gone on in the journal.
        """
        stored = self.history.checkpoints.get(one.ns, {}).get(one.id)
        if stored is None:
            yield self._checked(self._put(one))
        else:
            self._compare(one, stored)
        known = self.history.writes(one.ns, one.id)
        by_task: dict[str, list[SourceWrite]] = {}
        for write in one.writes:
            by_task.setdefault(write.task_id, []).append(write)
        if any(
            idx not in {write.idx for write in by_task.get(task_id, ())}
            for task_id, task in known.items() for idx in task.items
        ):  # fmt: skip
            self.has_gone_on = True
        for task_id, writes in by_task.items():
            lacking = [write for write in writes if self._lacks(known.get(task_id), write, one)]
            if lacking:
                yield self._checked(
                    PutWrites(
                        ns=one.ns, checkpoint_id=one.id, task_id=task_id, task_path=lacking[0].task_path,
                        items=[StoredWrite(w.idx, w.channel, w.value[0], _text(w.value[1])) for w in lacking],
                    )
                )  # fmt: skip

    def _put(self, one: SourceCheckpoint) -> Put:
        is_newest = one.id > self.newest.get(one.ns, "")
        channels: dict[str, StoredValue] = {}
        for channel, version in one.versions.items():
            place, value = (one.ns, channel), one.values.get(channel, _EMPTY)
            if is_snapshot(*self.serde.opened(value)):
                self.snapshots.setdefault(place, set()).add(version)
            elif value is _EMPTY and self._has_snapshot(place, version):
                continue  # the snapshot stands for later checkpoints, too, as long as nothing is written
            if is_newest:
                if self.context.get(place) == (version, _digest(value)):
                    continue
            elif self.history.value(one.ns, channel, version) is not None:
                continue
            channels[channel] = StoredValue(version, value[0], _text(value[1]))
        if is_newest:
            self.newest[one.ns] = one.id
            for place in [at for at in self.context if at[0] == one.ns and at[1] not in one.versions]:
                del self.context[place]
            for channel, new in channels.items():
                self.context[one.ns, channel] = new.version, _digest_stored(new)
        metadata_kind, metadata = self.serde.dumps_typed(one.metadata)
        stored = StoredCheckpoint(
            one.id, one.parent_id, one.bare[0], _text(one.bare[1]), metadata_kind, _text(metadata)
        )
        return Put(ns=one.ns, checkpoint=stored, versions=one.versions, channels=channels)

    def _has_snapshot(self, place: _Place, version: Version) -> bool:
        if version in self.snapshots.get(place, ()):
            return True
        known = self.history.value(*place, version)
        return known is not None and known.type != "empty"

    def _compare(self, one: SourceCheckpoint, stored: StoredCheckpoint) -> None:
        mine = self.serde.loads_typed((stored.type, a2b_base64(stored.data)))
        metadata = self.serde.loads_typed((stored.metadata_type, a2b_base64(stored.metadata)))
        theirs = self.serde.loads_typed(one.bare)
        if stored.parent_id != one.parent_id or not are_equal(mine, theirs) or not are_equal(metadata, one.metadata):
            raise self._other(f"it has the checkpoint {one.id} with other content")

    def _lacks(self, known: TaskWrites | None, write: SourceWrite, one: SourceCheckpoint) -> bool:
        stored = None if known is None else known.items.get(write.idx)
        if stored is None:
            return True
        if stored.channel == write.channel and _is_same(stored, write.value, self.serde):
            return False
        if write.idx >= 0:
            raise self._other(f"it has other writes with the checkpoint {one.id}")
        return not self.has_gone_on  # of the writes of LangGraph itself the last one counts

    def _checked(self, op: Put | PutWrites) -> Put | PutWrites:
        if self.history.is_cut:
            raise self._other("its log was trimmed after an earlier import")
        if self.has_gone_on:
            raise self._other("its graph has gone on in the journal, and in the source as well")
        return op

    def _other(self, why: str) -> Refused:
        return other_content(why, self.process_id, self.thread_id)


def _is_same(stored: StoredWrite, value: Typed, serde: OpaqueSerializer) -> bool:
    kind, data = value
    if stored.type.startswith("@"):
        return "+" in kind or (stored.type[1:], stored.data.partition(":")[0]) == (kind, sha256(data).hexdigest())
    return serde.opened((stored.type, a2b_base64(stored.data))) == serde.opened(value)


def _digest(value: Typed) -> str:
    return f"{value[0]} {sha256(value[1]).hexdigest()}"


def _digest_stored(value: StoredValue) -> str:
    if value.type.startswith("@"):
        return f"{value.type[1:]} {value.data.partition(':')[0]}"
    return _digest((value.type, a2b_base64(value.data)))


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
