"""A checkpointer for LangGraph: its threads are processes of a journal, to which any node may write."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from seekpoint.adapters.cross_thread_calls import NodeCalls
from seekpoint.adapters.langgraph.recent_threads import RecentThreads
from seekpoint.adapters.langgraph.removals import Removals
from seekpoint.adapters.langgraph.serialization import (
    checked_serializer,
    dumped,
    strict_serializer,
    take_declared_types,
)
from seekpoint.adapters.langgraph.stored_parts import Put, PutWrites, StoredCheckpoint, StoredValue, StoredWrite
from seekpoint.adapters.langgraph.thread_reads import ThreadReads
from seekpoint.errors import Refused

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from seekpoint import Node, SyncNode


class SeekpointSaver(BaseCheckpointSaver[str]):
    """Keep the checkpoints of graphs in a journal: ``graph = builder.compile(checkpointer=SeekpointSaver(node))``.

    Any number of nodes may serve the same threads. A call that has returned is written: every later read of any node
    has it. With a ``Node`` it is made in the node's event loop; there it serves the async calls of graphs, and blocking
    ones in other threads. With a ``SyncNode`` it serves both, everywhere.

    Reading builds the safe types of LangGraph, those that the schema of a ``StateGraph`` declares, those that ``allow``
    names (for fields of ``Any``, and for reads without a graph), and no others. ``serde`` replaces the serializer, for
    example by an encrypting one; one that falls back to pickle raises ``InvalidSetting``. The process of a thread is
    called ``PREFIX/THREAD_ID``.
    """

    def __init__(
        self,
        node: Node | SyncNode,
        *,
        allow: Iterable[type | tuple[str, str]] = (),
        serde: SerializerProtocol | None = None,
        prefix: str = "langgraph",
    ) -> None:
        super().__init__(serde=checked_serializer(serde or strict_serializer(allow)))
        take_declared_types()
        self._calls = NodeCalls(node)
        self._threads = RecentThreads(self._calls.node, prefix)

    # --- async calls
    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:  # fmt: skip
        """Store a checkpoint with the values of the channels in ``new_versions``; see ``BaseCheckpointSaver.put``."""
        place = _place(config)
        op = self._put_of(config, place["checkpoint_ns"], checkpoint, metadata, new_versions)
        await self._calls.awaited(self._threads.write(place["thread_id"], op))
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task with the checkpoint of ``config``."""
        op = self._writes_of(config, writes, task_id, task_path)
        await self._calls.awaited(self._threads.write(_place(config)["thread_id"], op))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of ``config``, or the newest one of its thread and namespace; None if there is none."""
        return await self._calls.awaited(self._reads.get(_place(config), get_checkpoint_id(config)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the newest first. Reads the thread's history; without ``config``, that of all threads."""
        before_id = None if before is None else get_checkpoint_id(before)
        async for one in self._calls.streamed(self._reads.listed(config, filter or {}, before_id, limit)):
            yield one

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints and writes of a thread."""
        await self._calls.awaited(self._removals.thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs with their writes. Reads the histories of all threads."""
        await self._calls.awaited(self._removals.runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread. Repeat the call if it was interrupted."""
        await self._calls.awaited(self._removals.copy(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the newest checkpoint of each namespace, or with ``delete`` all of them.

        Ancestors stay from which a delta channel of the newest checkpoint is built.
        """
        await self._calls.awaited(self._removals.prune(thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what the ancestors of a checkpoint have written to delta channels since their newest stored value."""
        return await self._calls.awaited(self._reads.deltas(_place(config), get_checkpoint_id(config), channels))

    # --- blocking calls
    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:  # fmt: skip
        """Store a checkpoint; see ``aput``."""
        place = _place(config)
        op = self._put_of(config, place["checkpoint_ns"], checkpoint, metadata, new_versions)
        self._calls.blocking(self._threads.write(place["thread_id"], op))
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task; see ``aput_writes``."""
        op = self._writes_of(config, writes, task_id, task_path)
        self._calls.blocking(self._threads.write(_place(config)["thread_id"], op))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint; see ``aget_tuple``."""
        return self._calls.blocking(self._reads.get(_place(config), get_checkpoint_id(config)))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first; see ``alist``."""
        before_id = None if before is None else get_checkpoint_id(before)
        yield from self._calls.iterated(self._reads.listed(config, filter or {}, before_id, limit))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread; see ``adelete_thread``."""
        self._calls.blocking(self._removals.thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs; see ``adelete_for_runs``."""
        self._calls.blocking(self._removals.runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread; see ``acopy_thread``."""
        self._calls.blocking(self._removals.copy(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove older checkpoints; see ``aprune``."""
        self._calls.blocking(self._removals.prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the history of delta channels; see ``aget_delta_channel_history``."""
        return self._calls.blocking(self._reads.deltas(_place(config), get_checkpoint_id(config), channels))

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return the version after ``current``. A random part tells apart the versions of two branches of a thread."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    # --- parts
    @property
    def _reads(self) -> ThreadReads:
        return ThreadReads(self._threads, self.serde)  # the serializer of this clone: see with_allowlist

    @property
    def _removals(self) -> Removals:
        return Removals(self._threads, self._reads)

    def _put_of(
        self, config: RunnableConfig, ns: str, checkpoint: Checkpoint, metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Put:  # fmt: skip
        values = checkpoint["channel_values"]
        channels: dict[str, StoredValue] = {}
        for channel, version in new_versions.items():
            kind, data = dumped(self.serde, values[channel], "channel", channel) if channel in values else ("empty", "")
            channels[channel] = StoredValue(version, kind, data)
        bare = {name: part for name, part in checkpoint.items() if name != "channel_values"}
        parent_id = get_checkpoint_id(config) or ""
        stored = StoredCheckpoint(
            checkpoint["id"], parent_id, *dumped(self.serde, bare, "checkpoint", checkpoint["id"]),
            *dumped(self.serde, get_checkpoint_metadata(config, metadata), "metadata", checkpoint["id"]),
        )  # fmt: skip
        return Put(ns=ns, checkpoint=stored, versions=dict(checkpoint["channel_versions"]), channels=channels)

    def _writes_of(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> PutWrites:
        ns, checkpoint_id = _place(config)["checkpoint_ns"], get_checkpoint_id(config)
        if not checkpoint_id:
            raise Refused("writes are stored with a checkpoint", hint="pass the config that put has returned")
        items = [
            StoredWrite(WRITES_IDX_MAP.get(channel, idx), channel, *dumped(self.serde, value, "write", channel))
            for idx, (channel, value) in enumerate(writes)
        ]
        return PutWrites(
            ns=ns, checkpoint_id=checkpoint_id, task_id=task_id, task_path=task_path, items=items
        )  # fmt: skip


def _place(config: RunnableConfig) -> dict[str, Any]:
    """Return thread and namespace of ``config``. Raises ``Refused`` without a thread."""
    given = config.get("configurable", {})
    if not given.get("thread_id"):
        raise Refused(
            "a checkpoint belongs to a thread", hint='pass config={"configurable": {"thread_id": "..."}} to the graph'
        )
    return {"thread_id": given["thread_id"], "checkpoint_ns": given.get("checkpoint_ns") or ""}
