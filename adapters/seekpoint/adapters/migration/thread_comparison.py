"""Compare the checkpoints of a source with those that a saver of the journal reads, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple, writes_sort_key

from seekpoint.adapters.langgraph.recent_threads import RecentThreads
from seekpoint.adapters.langgraph.serialization import strict_serializer
from seekpoint.adapters.langgraph.stored_parts import StoredCheckpoint
from seekpoint.adapters.langgraph.thread_history import ThreadHistory
from seekpoint.adapters.langgraph.thread_reads import ThreadReads
from seekpoint.adapters.migration.opaque_values import Opaque, OpaqueSerializer, Typed, are_equal
from seekpoint.adapters.migration.source_checkpoints import SourceCheckpoint
from seekpoint.errors import SeekpointError

_SNAPSHOT = 7


class ThreadComparison:
    """Reads a thread of the journal, as a saver does that has nothing in memory."""

    def __init__(self, threads: RecentThreads, thread_id: str, serde: OpaqueSerializer, history: ThreadHistory) -> None:
        self._reads = ThreadReads(threads, serde)
        self._log = threads.of(thread_id)
        self._thread_id = thread_id
        self._serde = serde
        self._history = history
        self.newest: dict[str, SourceCheckpoint] = {}
        """The newest checkpoint of each namespace of the source."""
        self._written: dict[tuple[str, str], set[str]] = {}
        """The channels to which the writes go that are stored with a checkpoint."""

    async def differences(self, one: SourceCheckpoint, *, has_gone_on: bool) -> list[str]:
        """Return what the journal has otherwise than this checkpoint of the source."""
        self.newest[one.ns] = one
        self._written[one.ns, one.id] = {write.channel for write in one.writes}
        stored = self._history.checkpoints.get(one.ns, {}).get(one.id)
        if stored is None:
            return [_line(one, "the checkpoint is not there")]
        return await self._compared(one, lambda: self._past(one, stored), has_gone_on=has_gone_on)

    async def newest_differences(self) -> list[str]:
        """Return what differs where a graph goes on: the newest checkpoint of each namespace, from the context."""
        found: list[str] = []
        for ns, one in self.newest.items():
            place = {"thread_id": self._thread_id, "checkpoint_ns": ns}
            rows = await self._compared(one, lambda place=place: self._reads.get(place, None), has_gone_on=False)  # type: ignore[misc]
            found += [f"read as the newest: {row}" for row in rows]
        return found

    def unknown(self, places: set[tuple[str, str]]) -> list[str]:
        """Return the checkpoints of the journal that the source does not have."""
        mine = {(ns, one) for ns, by_id in self._history.checkpoints.items() for one in by_id}
        return [f"{ns}{':' if ns else ''}{one}: the source has no such checkpoint" for ns, one in sorted(mine - places)]

    async def _past(self, one: SourceCheckpoint, stored: StoredCheckpoint) -> CheckpointTuple:
        return await self._reads.past({"thread_id": self._thread_id, "checkpoint_ns": one.ns}, stored, self._history)

    async def _compared(self, one: SourceCheckpoint, read: Callable[[], Any], *, has_gone_on: bool) -> list[str]:
        try:
            found: CheckpointTuple | None = await read()
        except SeekpointError as exc:
            return [_line(one, f"cannot be read: {exc.message}")]
        if found is None:
            return [_line(one, "the checkpoint is not there")]
        wrong = [name for name in _names(one.whole, found.checkpoint) if not _same_member(name, one.whole, found)]
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else ""
        if found.checkpoint["id"] != one.id:
            wrong.append("id")
        if parent != one.parent_id:
            wrong.append("parent")
        if not are_equal(found.metadata, one.metadata):
            wrong.append("metadata")
        rows = [_line(one, f"another {name}") for name in wrong]
        rows += [_line(one, f"another value of {name}") for name in await self._values(one, found)]
        return rows + self._writes(one, found, has_gone_on=has_gone_on)

    async def _values(self, one: SourceCheckpoint, found: CheckpointTuple) -> list[str]:
        theirs, mine = one.whole["channel_values"], found.checkpoint["channel_values"]
        wrong: list[str] = []
        for channel in sorted(theirs.keys() | mine.keys()):
            if channel not in theirs:
                if not self._stands_for_later(one, channel, mine[channel]):
                    wrong.append(channel)
            elif channel not in mine or not are_equal(theirs[channel], mine[channel]):
                stored = self._history.value(one.ns, channel, one.versions[channel])
                if stored is None or not _means_the_same(
                    self._serde.opened(one.values[channel]),
                    self._serde.opened(await self._log.bytes_of(stored.type, stored.data)),
                ):
                    wrong.append(channel)
        return wrong

    def _stands_for_later(self, one: SourceCheckpoint, channel: str, value: Any) -> bool:
        """Return whether it is a delta channel's snapshot, with nothing written to the channel since."""
        is_snapshot = isinstance(value, Opaque) and value.type == _SNAPSHOT
        return is_snapshot and channel not in self._written.get((one.ns, one.parent_id), ())

    def _writes(self, one: SourceCheckpoint, found: CheckpointTuple, *, has_gone_on: bool) -> list[str]:
        ordered = sorted(one.writes, key=lambda row: writes_sort_key(row.task_path, row.task_id, row.idx))
        theirs = [(row.task_id, row.channel, self._serde.loads_typed(row.value)) for row in ordered]
        mine = list(found.pending_writes or ())
        if has_gone_on:  # what a graph has added since, or written anew about itself, is no difference
            kept = [row for row, write in zip(theirs, ordered, strict=True) if write.idx >= 0]
            lost = [row for row in kept if not any(_same_write(row, other) for other in mine)]
        else:
            lost = [] if len(theirs) == len(mine) else theirs[:1] or mine[:1]
            lost += [row for row, other in zip(theirs, mine, strict=False) if not _same_write(row, other)]
        return [_line(one, f"other writes of the task {lost[0][0]}")] if lost else []


def _names(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    return sorted((theirs.keys() | mine.keys()) - {"channel_values"})


def _same_member(name: str, theirs: Mapping[str, Any], found: CheckpointTuple) -> bool:
    mine: Mapping[str, Any] = found.checkpoint
    return name in theirs and name in mine and are_equal(theirs[name], mine[name])


def _same_write(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return tuple(one[:2]) == tuple(other[:2]) and are_equal(one[2], other[2])


def _means_the_same(one: Typed, other: Typed) -> bool:
    """Return whether two values whose bytes differ are equal: a set may have been written in another order."""
    serde = strict_serializer()
    try:
        return bool(serde.loads_typed(one) == serde.loads_typed(other))
    except Exception:  # of a type that cannot be built or compared
        return False


def _line(one: SourceCheckpoint, what: str) -> str:
    return f"{one.ns}{':' if one.ns else ''}{one.id}: {what}"
