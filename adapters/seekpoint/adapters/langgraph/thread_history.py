"""All checkpoints of a thread, from the entries of its process. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import writes_sort_key

from seekpoint.adapters.langgraph.large_values import digests_in
from seekpoint.adapters.langgraph.stored_parts import StoredCheckpoint, StoredValue, StoredWrite, Version
from seekpoint.adapters.langgraph.thread_content import TaskWrites, ThreadContent, merged
from seekpoint.adapters.langgraph.thread_names import KEY_PARTS, PAST_KEY, parts_of

if TYPE_CHECKING:
    from seekpoint.schemas.bodies import Body


class ThreadHistory:
    """The checkpoints, values and writes that the entries up to ``seq`` have stored and not removed."""

    def __init__(self) -> None:
        self.seq = 0
        self.width = 0
        """About how many bytes of memory it takes."""
        self.checkpoints: dict[str, dict[str, StoredCheckpoint]] = {}
        """By namespace and id."""
        self._values: dict[tuple[str, str], dict[Version, StoredValue]] = {}
        """By namespace and channel, then by version."""
        self._writes: dict[tuple[str, str], dict[str, TaskWrites]] = {}
        """By namespace and checkpoint, then by task."""
        self.is_cut = False
        """Whether the log was trimmed: the oldest entries are gone."""
        self.read_to: int | None = None
        """The offset of the last record that was read."""
        self.unapplied: deque[tuple[int, Body]] = deque()
        """What was read and not applied yet: seqs and bodies."""

    # --- reading
    def value(self, ns: str, channel: str, version: Version) -> StoredValue | None:
        """Return the value that a channel had at a version."""
        return self._values.get((ns, channel), {}).get(version)

    def writes(self, ns: str, checkpoint_id: str) -> Mapping[str, TaskWrites]:
        """Return the writes that are stored with a checkpoint, by task."""
        return self._writes.get((ns, checkpoint_id), {})

    def ancestors(self, ns: str, checkpoint_id: str) -> Iterator[StoredCheckpoint]:
        """Yield the parent of a checkpoint, its parent, and so on. A cycle ends where it comes round."""
        known, seen = self.checkpoints.get(ns, {}), {checkpoint_id}
        checkpoint = known.get(checkpoint_id)
        while checkpoint is not None and checkpoint.parent_id not in seen:
            seen.add(checkpoint.parent_id)
            checkpoint = known.get(checkpoint.parent_id)
            if checkpoint is not None:
                yield checkpoint

    def has_all_ancestors(self, ns: str, checkpoint_id: str) -> bool:
        """Return whether no ancestor of a checkpoint was trimmed."""
        oldest = deque([self.checkpoints.get(ns, {}).get(checkpoint_id), *self.ancestors(ns, checkpoint_id)]).pop()
        return not self.is_cut or (oldest is not None and not oldest.parent_id)

    def is_whole(self, ns: str, versions: Mapping[str, Version]) -> bool:
        """Return whether no value of a checkpoint with these versions was trimmed."""
        return not self.is_cut or all(self.value(ns, name, one) is not None for name, one in versions.items())

    def digests(self, ns: str, checkpoint_id: str, versions: Mapping[str, Version]) -> Iterator[str]:
        """Return the digests of the attachments in a checkpoint with these versions, and in its writes."""
        values = [self.value(ns, name, version) for name, version in versions.items()]
        items = [item for task in self.writes(ns, checkpoint_id).values() for item in task.items.values()]
        return digests_in([*filter(None, values), *items])

    # --- following
    def clear(self, seq: int) -> None:
        """Forget everything: the entry ``seq`` deleted the thread. With 0: read it again."""
        if seq > self.seq or not seq:
            self.seq, self.width, self.is_cut = seq, 0, False
            if not seq:
                self.read_to = None
                self.unapplied.clear()
            self.checkpoints, self._values, self._writes = {}, {}, {}

    def complete(self, content: ThreadContent) -> None:
        """Take in the newest checkpoints, which the log may have no entries of any more: it was trimmed."""
        self.is_cut = True
        for ns, space in content.namespaces.items():
            if space.checkpoint is not None:
                self.checkpoints.setdefault(ns, {}).setdefault(space.checkpoint.id, space.checkpoint)
            for channel, value in space.channels.items():
                self._values.setdefault((ns, channel), {}).setdefault(value.version, value)
            for (checkpoint_id, task_id), task in space.writes.items():
                self._writes.setdefault((ns, checkpoint_id), {}).setdefault(task_id, task)

    def apply(self, seq: int, values: Mapping[str, Any]) -> None:
        """Take in what the entry ``seq`` sets. What it says of the past comes before the rest."""
        if seq <= self.seq:
            return
        self.seq = seq
        for op in values.get(PAST_KEY, ()):
            self._past(op)
        for key, value in values.items():
            kind, *parts = parts_of(key)
            if len(parts) != KEY_PARTS.get(kind):  # of somebody else, or of a later version of the adapter
                continue
            if kind == "checkpoint":
                self._put(parts[0], value)
            elif kind == "channel":
                self._set(parts[0], parts[1], value)
            else:
                self._write(parts[0], parts[1], parts[2], value)

    def _past(self, op: Sequence[Any]) -> None:
        kind, *rest = op
        if kind == "put":
            ns, checkpoint, values = rest
            self._put(ns, checkpoint)
            for channel, *value in values:
                self._set(ns, channel, value)
        elif kind == "writes":
            self._write(*rest)
        elif kind == "forget":
            self._forget(rest)

    def _put(self, ns: str, value: Sequence[Any]) -> None:
        one = StoredCheckpoint(*value)
        self.checkpoints.setdefault(ns, {})[one.id] = one
        self.width += len(one.data) + len(one.metadata) + 500

    def _set(self, ns: str, channel: str, value: Sequence[Any]) -> None:
        one = StoredValue(*value)
        self._values.setdefault((ns, channel), {})[one.version] = one
        self.width += len(one.data) + 300

    def _write(self, ns: str, checkpoint_id: str, task_id: str, value: Sequence[Any]) -> None:
        by_task, new = self._writes.setdefault((ns, checkpoint_id), {}), TaskWrites.of(value)
        by_task[task_id] = merged(by_task.get(task_id), new.path, new.items.values())
        self.width += sum(len(item.data) + 300 for item in new.items.values())

    def _forget(self, gone: Sequence[Sequence[str]]) -> None:
        for ns, *ids in gone:
            for one in ids:
                self.checkpoints.get(ns, {}).pop(one, None)
                self._writes.pop((ns, one), None)


def sorted_writes(by_task: Mapping[str, TaskWrites]) -> list[tuple[str, StoredWrite]]:
    """Return writes with their tasks, in the order in which LangGraph applies them."""
    rows = [(task_id, one.path, item) for task_id, one in by_task.items() for item in one.items.values()]
    rows.sort(key=lambda row: writes_sort_key(row[1], row[0], row[2].idx))
    return [(task_id, item) for task_id, _, item in rows]
