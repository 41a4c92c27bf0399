"""The newest checkpoint of each namespace of a thread, as the context of its process has it. Pure.

    checkpoint/NS                 the newest checkpoint, without values
    channel/NS/CHANNEL            the value of a channel, with its version
    writes/NS/CHECKPOINT/TASK     the writes of a task, until a checkpoint comes that is newer than theirs
    past                          what the newest entry says about older checkpoints

An entry sets and deletes such keys. So the context is enough to resume a thread, and the entries, one after the other,
have all its checkpoints: ``thread_history`` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from seekpoint.adapters.langgraph.stored_parts import (
    Forget,
    Json,
    Op,
    Put,
    PutWrites,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
)
from seekpoint.adapters.langgraph.thread_names import (
    KEY_PARTS,
    PAST_KEY,
    THREAD_KEY,
    channel_key,
    checkpoint_key,
    parts_of,
    writes_key,
)


class TaskWrites:
    """The writes of one task that are stored with one checkpoint: the task's path, and the writes by index."""

    __slots__ = ("items", "path")

    def __init__(self, path: str, items: Mapping[int, StoredWrite]) -> None:
        self.path = path
        self.items = items

    @classmethod
    def of(cls, value: Sequence[Json]) -> TaskWrites:
        """Read what ``json`` has made."""
        path, *rows = value
        items = [StoredWrite(*row) for row in rows if isinstance(row, list)]  # type: ignore[arg-type]
        return cls(str(path), {item.idx: item for item in items})

    @property
    def json(self) -> list[Json]:
        """Return the value of the context key."""
        rows: list[list[Json]] = [list(item) for item in self.items.values()]
        return [self.path, *rows]


def merged(old: TaskWrites | None, path: str, items: Iterable[StoredWrite]) -> TaskWrites:
    """Add writes to those of the task. Of two with one index the first stays; of special ones (below 0) the last."""
    if old is None:
        old = TaskWrites(path, {})
    by_idx = dict(old.items)
    for item in items:
        if item.idx < 0 or item.idx not in by_idx:
            by_idx[item.idx] = item
    return TaskWrites(path, by_idx)


@dataclass(slots=True)
class Namespace:
    """The newest checkpoint of one namespace."""

    checkpoint: StoredCheckpoint | None = None
    channels: dict[str, StoredValue] = field(default_factory=dict)
    writes: dict[tuple[str, str], TaskWrites] = field(default_factory=dict)
    """By checkpoint and task."""

    def copy(self) -> Namespace:
        """Return a copy to change."""
        return Namespace(self.checkpoint, dict(self.channels), dict(self.writes))


@dataclass(slots=True)
class ContextChange:
    """The context values that one entry sets, and the keys that it deletes."""

    values: dict[str, Json] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    past: list[Json] = field(default_factory=list)

    def write(self, key: str, value: Json) -> None:
        self.values[key] = value
        self.deleted.discard(key)

    def remove(self, key: str) -> None:
        self.values.pop(key, None)
        self.deleted.add(key)


@dataclass(slots=True)
class ThreadContent:
    """The content of a thread as of ``seq``. It is never changed: ``applied`` returns a new one."""

    seq: int = 0
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    has_thread: bool = False
    has_past: bool = False
    deleted_seq: int = 0
    """The seq of the entry that deleted the thread, before this content."""

    @classmethod
    def of(cls, seq: int, values_json: Mapping[str, str], deleted_seq: int = 0) -> ThreadContent:
        """Read the context of a process."""
        content = cls(
            seq, has_thread=THREAD_KEY in values_json, has_past=PAST_KEY in values_json, deleted_seq=deleted_seq
        )
        for key, text in values_json.items():
            kind, *parts = parts_of(key)
            if len(parts) != KEY_PARTS.get(kind):  # what the entry says of the past, or a key of somebody else
                continue
            space, value = content.namespaces.setdefault(parts[0], Namespace()), orjson.loads(text)
            if kind == "checkpoint":
                space.checkpoint = StoredCheckpoint(*value)
            elif kind == "channel":
                space.channels[parts[1]] = StoredValue(*value)
            elif kind == "writes":
                space.writes[parts[1], parts[2]] = TaskWrites.of(value)
        return content

    def applied(self, ops: Sequence[Op], thread_id: str) -> tuple[ThreadContent, ContextChange]:
        """Return the content after ``ops``, which fit one entry, and the change that the entry makes."""
        spaces = {ns: space.copy() for ns, space in self.namespaces.items()}
        change = ContextChange()
        for op in ops:
            if isinstance(op, Forget):
                _forget(spaces, op, change)
            elif isinstance(op, Put):
                _put(spaces.setdefault(op.ns, Namespace()), op, change)
            else:
                _write(spaces.setdefault(op.ns, Namespace()), op, change)
        if not self.has_thread:
            change.write(THREAD_KEY, thread_id)
        if change.past:
            change.write(PAST_KEY, change.past)
        elif self.has_past:
            change.remove(PAST_KEY)
        after = ThreadContent(
            self.seq + 1, spaces, has_thread=True, has_past=bool(change.past), deleted_seq=self.deleted_seq
        )
        return after, change

    def missing(self, op: Put) -> list[str]:
        """Return the channels of a checkpoint whose values the context does not have: it goes on from an older one."""
        space = self.namespaces.get(op.ns, Namespace())
        newest, one, known = space.checkpoint, op.checkpoint, space.channels
        if newest is None or one.parent_id in ("", newest.id) or one.id < newest.id:
            return []
        return [
            channel for channel, version in op.versions.items()
            if channel not in op.channels and (channel not in known or known[channel].version != version)
        ]  # fmt: skip


def fits_one_entry(ops: Sequence[Op], op: Op) -> bool:
    """Return whether one entry can make the change ``op`` too: it stores at most one checkpoint of each namespace."""
    if isinstance(op, Forget):
        return not ops
    if isinstance(op, Put):
        return not any(isinstance(one, Put) and one.ns == op.ns for one in ops)
    return True


def _put(space: Namespace, op: Put, change: ContextChange) -> None:
    newest = space.checkpoint
    if newest is not None and op.checkpoint.id < newest.id:
        values: list[Json] = [[channel, *value] for channel, value in op.channels.items()]
        change.past.append(["put", op.ns, list(op.checkpoint), values])
        return
    space.checkpoint = op.checkpoint
    change.write(checkpoint_key(op.ns), list(op.checkpoint))
    for channel in [name for name in space.channels if name not in op.versions]:
        del space.channels[channel]
        change.remove(channel_key(op.ns, channel))
    for channel, value in op.channels.items():
        space.channels[channel] = value
        change.write(channel_key(op.ns, channel), list(value))
    for checkpoint_id, task_id in [key for key in space.writes if key[0] < op.checkpoint.id]:
        _leave(op.ns, checkpoint_id, task_id, change)
        del space.writes[checkpoint_id, task_id]


def _leave(ns: str, checkpoint_id: str, task_id: str, change: ContextChange) -> None:
    """Remove writes from the context. What this very entry has set stays in the entry, as part of the past."""
    key = writes_key(ns, checkpoint_id, task_id)
    if key in change.values:
        change.past.append(["writes", ns, checkpoint_id, task_id, change.values[key]])
    change.remove(key)


def _write(space: Namespace, op: PutWrites, change: ContextChange) -> None:
    place = op.checkpoint_id, op.task_id
    space.writes[place] = merged(space.writes.get(place), op.task_path, op.items)
    change.write(writes_key(op.ns, *place), space.writes[place].json)


def _forget(spaces: dict[str, Namespace], op: Forget, change: ContextChange) -> None:
    gone: list[Json] = [[ns, *ids] for ns, ids in op.gone.items()]
    change.past.append(["forget", *gone])
    for ns in list(spaces):
        space, ids = spaces[ns], op.gone.get(ns, ())
        if space.checkpoint is not None and space.checkpoint.id in ids:
            _clear(spaces, ns, change)
    for one in op.newest:
        space = spaces.setdefault(one.ns, Namespace())
        _put(space, one, change) if isinstance(one, Put) else _write(space, one, change)


def _clear(spaces: dict[str, Namespace], ns: str, change: ContextChange) -> None:
    space = spaces.pop(ns)
    change.remove(checkpoint_key(ns))
    for channel in space.channels:
        change.remove(channel_key(ns, channel))
    for checkpoint_id, task_id in space.writes:
        change.remove(writes_key(ns, checkpoint_id, task_id))
