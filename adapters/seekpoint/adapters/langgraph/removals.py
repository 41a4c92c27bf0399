"""Removing checkpoints, and copying threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from seekpoint.adapters.langgraph.recent_threads import RecentThreads
from seekpoint.adapters.langgraph.stored_parts import Forget, Op, Put, PutWrites, StoredCheckpoint, StoredValue, Version
from seekpoint.adapters.langgraph.thread_content import ThreadContent
from seekpoint.adapters.langgraph.thread_history import ThreadHistory
from seekpoint.adapters.langgraph.thread_log import OutdatedError, ThreadLog
from seekpoint.adapters.langgraph.thread_reads import ThreadReads
from seekpoint.errors import Refused

_COPIED_AT_ONCE = 50
_Chooser: TypeAlias = Callable[[str, ThreadHistory], list[str]]


class Removals:
    """The calls of a saver that remove or copy checkpoints."""

    def __init__(self, threads: RecentThreads, reads: ThreadReads) -> None:
        self._threads = threads
        self._reads = reads

    async def thread(self, thread_id: object) -> None:
        """Remove all of a thread."""
        await self._threads.of(thread_id).delete()

    async def runs(self, run_ids: Collection[str]) -> None:
        """Remove the checkpoints of these runs, in all threads."""
        if not run_ids:
            return
        wanted = set(run_ids)
        for _, thread_id in await self._threads.newest_ids():
            await self._forget(
                thread_id,
                lambda ns, history: [
                    one.id for one in history.checkpoints[ns].values()
                    if self._reads.metadata(one).get("run_id") in wanted
                ],
            )  # fmt: skip

    async def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        """Remove all checkpoints but the newest ones, or all."""
        if strategy not in ("keep_latest", "delete"):
            raise Refused(
                "there is no such strategy", asked=strategy[:60], hint='use strategy="keep_latest" or "delete"'
            )
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.thread(thread_id)
            else:
                await self._forget(thread_id, self._outlived)

    def _outlived(self, ns: str, history: ThreadHistory) -> list[str]:
        """Return the checkpoints that the newest one does not need."""
        ids = history.checkpoints[ns]
        newest = max(ids)
        kept, deltas = {newest}, set(self._reads.metadata(ids[newest]).get("counters_since_delta_snapshot") or ())
        for one in history.ancestors(ns, newest):
            if not deltas:
                break
            kept.add(one.id)
            deltas -= set(self._stored(ns, one, history))
        return [one for one in ids if one not in kept]

    async def _forget(self, thread_id: object, chosen: _Chooser) -> None:
        log = self._threads.of(thread_id)
        while True:
            content, history = await log.history()
            gone = {ns: ids for ns in history.checkpoints if (ids := chosen(ns, history))}
            if not gone:
                return
            op = Forget(based_on=content.seq, gone=gone, newest=self._newest(log, content, history, gone))
            with suppress(OutdatedError):
                await log.write(op)
                return

    def _newest(
        self, log: ThreadLog, content: ThreadContent, history: ThreadHistory, gone: dict[str, list[str]]
    ) -> list[Put | PutWrites]:
        """Return what the context has to have where its newest checkpoint goes."""
        ops: list[Put | PutWrites] = []
        for ns, ids in gone.items():
            space = content.namespaces.get(ns)
            rows = history.checkpoints[ns].items()
            left = [name for name, one in rows if name not in ids and self._reads.is_whole(log, ns, one, history)]
            if left and space is not None and space.checkpoint is not None and space.checkpoint.id in ids:
                ops += self._stored_ops(ns, history.checkpoints[ns][max(left)], history, {})
        return ops

    async def copy(self, source_id: object, target_id: object) -> None:
        """Write all checkpoints of one thread to another one."""
        source, target = self._threads.of(source_id), self._threads.of(target_id)
        if source.process_id == target.process_id:
            return
        _, history = await source.history()
        written: dict[tuple[str, str], Version] = {}
        ops: list[Put | PutWrites] = []
        for ns, by_id in history.checkpoints.items():
            for one in sorted(one for one in by_id.values() if self._reads.is_whole(source, ns, one, history)):
                ops += self._stored_ops(ns, one, history, written)
        for start in range(0, len(ops), _COPIED_AT_ONCE):
            own = [await _with_own_bytes(op, source) for op in ops[start : start + _COPIED_AT_ONCE]]
            await asyncio.gather(*(target.write(op) for op in own))

    def _stored_ops(
        self, ns: str, one: StoredCheckpoint, history: ThreadHistory, written: dict[tuple[str, str], Version]
    ) -> list[Put | PutWrites]:
        """Return what stores a checkpoint of the history again. ``written`` has the values that are there already."""
        versions = self._versions(one)
        channels: dict[str, StoredValue] = {}
        for channel, version in versions.items():
            value = history.value(ns, channel, version)
            if value is not None and written.get((ns, channel)) != version:
                channels[channel], written[ns, channel] = value, version
        ops: list[Put | PutWrites] = [Put(ns=ns, checkpoint=one, versions=versions, channels=channels)]
        for task_id, task in history.writes(ns, one.id).items():
            ops.append(
                PutWrites(
                    ns=ns, checkpoint_id=one.id, task_id=task_id, task_path=task.path, items=list(task.items.values())
                )
            )
        return ops

    def _versions(self, one: StoredCheckpoint) -> dict[str, Version]:
        versions: dict[str, Version] = self._reads.load(one.type, one.data)["channel_versions"]
        return versions

    def _stored(self, ns: str, one: StoredCheckpoint, history: ThreadHistory) -> list[str]:
        """Return the channels of which a checkpoint has a value."""
        found = []
        for channel, version in self._versions(one).items():
            value = history.value(ns, channel, version)
            if value is not None and value.type != "empty":
                found.append(channel)
        return found


async def _with_own_bytes(op: Put | PutWrites, source: ThreadLog) -> Op:
    """Return ``op`` with the bytes of its attachments: the copy attaches them itself."""
    if isinstance(op, Put):
        return replace(op, channels={name: await source.with_bytes(value) for name, value in op.channels.items()})
    return replace(op, items=[await source.with_bytes(item) for item in op.items])
