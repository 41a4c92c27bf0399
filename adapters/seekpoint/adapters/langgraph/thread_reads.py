"""Reading the checkpoints of threads: the newest from the context, older ones from the history."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite, get_checkpoint_id

from seekpoint.adapters.langgraph.recent_threads import RecentThreads
from seekpoint.adapters.langgraph.serialization import loaded
from seekpoint.adapters.langgraph.stored_parts import StoredCheckpoint, StoredValue, StoredWrite, Version
from seekpoint.adapters.langgraph.thread_content import Namespace, TaskWrites
from seekpoint.adapters.langgraph.thread_history import ThreadHistory, sorted_writes
from seekpoint.adapters.langgraph.thread_log import ThreadLog
from seekpoint.errors import JournalGap

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol


class ThreadReads:
    """The reads of a saver, with its serializer."""

    def __init__(self, threads: RecentThreads, serde: SerializerProtocol) -> None:
        self.threads = threads
        self._serde = serde

    async def get(self, place: Mapping[str, Any], checkpoint_id: str | None) -> CheckpointTuple | None:
        """Return a checkpoint, by default the newest of the namespace; None if there is none."""
        log, ns = self.threads.of(place["thread_id"]), place["checkpoint_ns"]
        space = (await log.content()).namespaces.get(ns, Namespace())
        newest = space.checkpoint
        if checkpoint_id is None or (newest is not None and newest.id == checkpoint_id):
            if newest is None:
                return None
            bare = self.load(newest.type, newest.data)
            if all(_has(space, *one) for one in bare["channel_versions"].items()):
                writes = _writes_at(space, newest.id)
                return await self._tuple(log, place, newest, bare, lambda name, _: space.channels[name], writes)
        _, history = await log.history()
        one = history.checkpoints.get(ns, {}).get(checkpoint_id or (newest.id if newest else ""))
        if one is None:
            return None
        bare = self.load(one.type, one.data)
        return await self.past(place, one, history, bare) if history.is_whole(ns, bare["channel_versions"]) else None

    async def listed(
        self, config: RunnableConfig | None, wanted: Mapping[str, Any], before_id: str | None, limit: int | None
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints that are asked for, the newest first: those of which all values are there."""
        given = {} if config is None else config.get("configurable", {})
        only_ns, only_id = given.get("checkpoint_ns"), None if config is None else get_checkpoint_id(config)
        left = limit
        # A thread is read when nothing newer than its newest checkpoint is left of the others.
        threads = [("", given["thread_id"])] if given.get("thread_id") else sorted(await self.threads.newest_ids())
        rows: list[tuple[str, str, str, StoredCheckpoint, ThreadHistory]] = []
        while (threads or rows) and (left is None or left > 0):
            if threads and (not rows or threads[-1][0] > rows[-1][0]):
                thread_id = threads.pop()[1]
                _, history = await self.threads.of(thread_id).history()
                rows += [
                    (one.id, ns, thread_id, one, history)
                    for ns, by_id in history.checkpoints.items() for one in by_id.values()
                    if only_ns in (None, ns) and only_id in (None, one.id) and (before_id is None or one.id < before_id)
                ]  # fmt: skip
                rows.sort(key=lambda row: row[:3])
                continue
            _, ns, thread_id, one, history = rows.pop()
            metadata = self.metadata(one)
            if any(metadata.get(key) != value for key, value in wanted.items()):
                continue
            bare = self.load(one.type, one.data)
            if _is_whole(self.threads.of(thread_id), ns, one, bare, history):
                left = None if left is None else left - 1
                place = {"thread_id": thread_id, "checkpoint_ns": ns}
                yield await self.past(place, one, history, bare, metadata)

    async def deltas(
        self, place: Mapping[str, Any], checkpoint_id: str | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """Return the writes of the ancestors to each channel, oldest first, and the stored value they begin at."""
        if not channels:
            return {}
        ns = place["checkpoint_ns"]
        log = self.threads.of(place["thread_id"])
        content, history = await log.history()
        newest = content.namespaces.get(ns, Namespace()).checkpoint
        target = checkpoint_id or ("" if newest is None else newest.id)
        rows: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
        seeds: dict[str, StoredValue] = {}
        for one in history.ancestors(ns, target):
            left = [channel for channel in channels if channel not in seeds]
            if not left:
                break
            for task_id, item in reversed(sorted_writes(history.writes(ns, one.id))):
                if item.channel in left:
                    rows[item.channel].append((task_id, item.channel, await self._value(log, item)))
            versions = self.load(one.type, one.data)["channel_versions"]
            for channel in left:
                value = history.value(ns, channel, versions[channel]) if channel in versions else None
                if value is not None and value.type != "empty":
                    seeds[channel] = value
        if channels and seeds.keys() != set(channels) and target and not history.has_all_ancestors(ns, target):
            raise JournalGap(
                "entries are gone of which a delta channel is built", process_id=log.process_id,
                why=f"the log was trimmed; channels: {', '.join(sorted(set(channels) - seeds.keys()))[:200]}",
                hint="begin another thread; do not trim journals whose graphs have delta channels",
            )  # fmt: skip
        result: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            result[channel] = {"writes": rows[channel][::-1]}
            if channel in seeds:
                result[channel]["seed"] = await self._value(log, seeds[channel])
        return result

    async def past(
        self, place: Mapping[str, Any], one: StoredCheckpoint, history: ThreadHistory, bare: Any = None,
        metadata: Any = None,
    ) -> CheckpointTuple:  # fmt: skip
        """Return a checkpoint of the history. ``bare`` and ``metadata`` are its parts that the caller has decoded."""
        ns, log = place["checkpoint_ns"], self.threads.of(place["thread_id"])
        return await self._tuple(
            log, place, one, bare or self.load(one.type, one.data),
            lambda name, version: history.value(ns, name, version), history.writes(ns, one.id), metadata,
        )  # fmt: skip

    def is_whole(self, log: ThreadLog, ns: str, one: StoredCheckpoint, history: ThreadHistory) -> bool:
        """Return whether all values of a checkpoint are there: those of older ones may be trimmed or dropped."""
        return _is_whole(log, ns, one, self.load(one.type, one.data), history)

    def metadata(self, one: StoredCheckpoint) -> Any:
        """Return the metadata of a checkpoint."""
        return self.load(one.metadata_type, one.metadata)

    def load(self, kind: str, data: str) -> Any:
        """Return a value that the serializer has written."""
        return loaded(self._serde, kind, data)

    async def _value(self, log: ThreadLog, part: StoredValue | StoredWrite) -> Any:
        return loaded(self._serde, *await log.bytes_of(part.type, part.data))

    async def _tuple(
        self, log: ThreadLog, place: Mapping[str, Any], one: StoredCheckpoint, bare: Any,
        value_of: Callable[[str, Version], StoredValue | None], writes: Mapping[str, TaskWrites], metadata: Any = None,
    ) -> CheckpointTuple:  # fmt: skip
        values: dict[str, Any] = {}
        checkpoint: Any = {**bare, "channel_values": values}
        for channel, version in bare["channel_versions"].items():
            value = value_of(channel, version)
            if value is not None and value.type != "empty":
                values[channel] = await self._value(log, value)
        return CheckpointTuple(
            config={"configurable": {**place, "checkpoint_id": one.id}},
            checkpoint=checkpoint,
            metadata=metadata or self.metadata(one),
            parent_config={"configurable": {**place, "checkpoint_id": one.parent_id}} if one.parent_id else None,
            pending_writes=[
                (task_id, item.channel, await self._value(log, item)) for task_id, item in sorted_writes(writes)
            ],
        )


def _is_whole(log: ThreadLog, ns: str, one: StoredCheckpoint, bare: Any, history: ThreadHistory) -> bool:
    versions, kept = bare["channel_versions"], log.kept_attachments
    return history.is_whole(ns, versions) and all(digest in kept for digest in history.digests(ns, one.id, versions))


def _has(space: Namespace, channel: str, version: Version) -> bool:
    value = space.channels.get(channel)
    return value is not None and value.version == version


def _writes_at(space: Namespace, checkpoint_id: str) -> dict[str, TaskWrites]:
    return {task_id: one for (at, task_id), one in space.writes.items() if at == checkpoint_id}
