"""The threads of LangGraph's own savers as a source: each is written as ``SeekpointSaver`` would have written it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import islice
from typing import Any, Protocol

import orjson

from seekpoint import Node
from seekpoint.adapters.langgraph.recent_threads import RecentThreads
from seekpoint.adapters.langgraph.stored_parts import Put, PutWrites
from seekpoint.adapters.langgraph.thread_content import ThreadContent
from seekpoint.adapters.langgraph.thread_history import ThreadHistory
from seekpoint.adapters.langgraph.thread_log import ThreadLog
from seekpoint.adapters.langgraph.thread_names import THREAD_KEY, joined, process_id_of
from seekpoint.adapters.migration.existing_processes import existing_state
from seekpoint.adapters.migration.import_runner import Migrated, Order
from seekpoint.adapters.migration.opaque_values import OpaqueSerializer, cipher_of_environment
from seekpoint.adapters.migration.source_checkpoints import SourceCheckpoint
from seekpoint.adapters.migration.thread_comparison import ThreadComparison
from seekpoint.adapters.migration.thread_import import ThreadImport
from seekpoint.errors import Refused

_PAGE, _WRITTEN_AT_ONCE, _WIDTH_AT_ONCE = 32, 64, 4_194_304
_NAMED_MAX = 5


class _Thread(Protocol):
    """One thread of a source, as of one moment."""

    def pickles(self) -> list[str]:
        """Return where pickles are."""

    def places(self) -> set[tuple[str, str]]:
        """Return namespace and id of each checkpoint."""

    def orphaned_writes(self) -> int:
        """Return how many writes belong to no checkpoint."""

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        """Yield the checkpoints of each namespace, the oldest first."""


class _Threads(Protocol):
    def ids(self) -> list[str]:
        """Return the ids of all threads."""

    def checkpoint_count(self, thread_id: str) -> int:
        """Return how many checkpoints a thread has."""

    def reading(self, thread_id: str) -> AbstractContextManager[_Thread]:
        """Read a thread as of one moment."""


class LangGraphSource:
    """The threads of one of LangGraph's own savers."""

    unit = "checkpoints"
    default_prefix = "langgraph"

    def __init__(self, threads: _Threads, serde: OpaqueSerializer) -> None:
        self._threads = threads
        self._serde = serde

    def ids(self) -> list[str]:
        """Return the ids of all threads."""
        return self._threads.ids()

    def size(self, one_id: str) -> int:
        """Return how many checkpoints a thread has."""
        return self._threads.checkpoint_count(one_id)

    def process_id(self, one_id: str, prefix: str) -> str:
        """Return the process of a thread, as ``SeekpointSaver(prefix=...)`` names it."""
        return process_id_of(joined([one_id]), prefix)

    async def migrate(self, node: Node | None, one_id: str, order: Order) -> Migrated:
        """Import one thread, or say what an import would do. Raises ``SeekpointError``."""
        process_id = self.process_id(one_id, order.prefix)
        async with _opened(self._threads.reading(one_id)) as thread:
            if pickles := await asyncio.to_thread(thread.pickles):
                more = f" and {len(pickles) - _NAMED_MAX} more" if len(pickles) > _NAMED_MAX else ""
                raise Refused(
                    f"pickles are never loaded or copied: {'; '.join(pickles[:_NAMED_MAX])}{more}", name=one_id,
                    process_id=process_id,
                    hint="write these values with LangGraph's serializer without pickle_fallback, then import again",
                )  # fmt: skip
            places = await asyncio.to_thread(thread.places)
            content, history = await _known(node, process_id, one_id)
            plan = ThreadImport.into(
                content, history, thread_id=one_id, process_id=process_id, serde=self._serde, places=places
            )
            counts = {"checkpoints": 0, "writes": 0, "bytes": 0}
            new = dict.fromkeys(counts, 0)
            writer = None if order.dry_run or node is None else _Writer(_log(node, process_id, one_id))
            async for one in _pages(thread.checkpoints):
                counts["checkpoints"] += 1
                counts["writes"] += len(one.writes)
                counts["bytes"] += one.width
                for op in plan.missing(one):
                    _count(op, new)
                    if writer is not None:
                        await writer.write(op)
                order.advance(1)
            if writer is not None:
                await writer.flush()
            counts["orphaned_writes"] = await asyncio.to_thread(thread.orphaned_writes)
            differences: list[str] = []
            if order.compare and not order.dry_run and node is not None:
                differences = await self._differences(node, one_id, thread, order, has_gone_on=plan.has_gone_on)
        return Migrated.of(
            one_id, process_id, counts, new, differences, has_gone_on=plan.has_gone_on, is_planned=order.dry_run
        )

    async def _differences(
        self, node: Node, one_id: str, thread: _Thread, order: Order, *, has_gone_on: bool
    ) -> list[str]:
        threads = RecentThreads(node, order.prefix)
        _, history = await threads.of(one_id).history()
        comparison = ThreadComparison(threads, one_id, self._serde, history)
        found: list[str] = []
        places: set[tuple[str, str]] = set()
        async for one in _pages(thread.checkpoints):
            found += await comparison.differences(one, has_gone_on=has_gone_on)
            places.add((one.ns, one.id))
            order.advance(1)
        if not has_gone_on:
            found += await comparison.newest_differences() + comparison.unknown(places)
        return found


class _Writer:
    """Writes operations in their order, with many under way at once."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log
        self._ops: list[Put | PutWrites] = []
        self._width = 0

    async def write(self, op: Put | PutWrites) -> None:
        self._ops.append(op)
        parts = op.channels.values() if isinstance(op, Put) else op.items
        self._width += sum(len(part.data) for part in parts)
        if len(self._ops) >= _WRITTEN_AT_ONCE or self._width > _WIDTH_AT_ONCE:
            await self.flush()

    async def flush(self) -> None:
        ops, self._ops, self._width = self._ops, [], 0
        done = await asyncio.gather(*(self._log.write(op) for op in ops), return_exceptions=True)
        for one in done:
            if isinstance(one, BaseException):
                raise one


def langgraph_sqlite(place: str) -> LangGraphSource:
    """Return the threads in a file of ``SqliteSaver``."""
    from seekpoint.adapters.migration.sqlite_threads import SqliteThreads

    serde = _serde()
    return LangGraphSource(SqliteThreads(place, serde), serde)


def langgraph_postgres(place: str) -> LangGraphSource:
    """Return the threads in a database of ``PostgresSaver``."""
    from seekpoint.adapters.migration.postgres_threads import PostgresThreads

    serde = _serde()
    return LangGraphSource(PostgresThreads(place, serde), serde)


def _serde() -> OpaqueSerializer:
    return OpaqueSerializer(cipher_of_environment(os.environ.get("LANGGRAPH_AES_KEY")))


def _log(node: Node, process_id: str, thread_id: str) -> ThreadLog:
    return ThreadLog(node, process_id, thread_id)


async def _known(node: Node | None, process_id: str, thread_id: str) -> tuple[ThreadContent, ThreadHistory]:
    """Return what the journal has of a thread. Raises ``Refused`` for a process of somebody else."""
    own = orjson.dumps(thread_id).decode()
    state = await existing_state(node, process_id, thread_id, lambda values: values.get(THREAD_KEY) == own)
    if state is None or node is None:
        return ThreadContent(), ThreadHistory()
    return await _log(node, process_id, thread_id).history()


@asynccontextmanager
async def _opened(reading: AbstractContextManager[_Thread]) -> AsyncIterator[_Thread]:
    thread = await asyncio.to_thread(reading.__enter__)
    try:
        yield thread
    except BaseException as exc:
        if not await asyncio.to_thread(reading.__exit__, type(exc), exc, exc.__traceback__):
            raise
    else:
        await asyncio.to_thread(reading.__exit__, None, None, None)


async def _pages(checkpoints: Callable[[], Iterator[SourceCheckpoint]]) -> AsyncIterator[SourceCheckpoint]:
    """Yield what a blocking iterator yields. It is read in threads, some items ahead."""
    rows = checkpoints()

    def page() -> list[SourceCheckpoint]:
        found: list[SourceCheckpoint] = []
        width = 0
        for one in islice(rows, _PAGE):
            found.append(one)
            width += one.width
            if width > _WIDTH_AT_ONCE:
                break
        return found

    while found := await asyncio.to_thread(page):
        for one in found:
            yield one


def _count(op: Put | PutWrites, new: dict[str, int]) -> None:
    parts: Any = op.channels.values() if isinstance(op, Put) else op.items
    new["bytes"] += sum(len(part.data) * 3 // 4 for part in parts)
    if isinstance(op, Put):
        new["checkpoints"] += 1
    else:
        new["writes"] += len(op.items)
