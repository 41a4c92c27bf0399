"""The public reader of the view: processes as of the applied offset, from Redis alone, without Kafka."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

from seekpoint.consumers.view.process_summary import Summary
from seekpoint.consumers.view.view_store import ViewBrowser
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidName, InvalidSetting, ViewUnavailable
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.process_ids import named_process_key

T = TypeVar("T")

_THREADS = 4
_PAGE_MAX = 500


class Viewed(FrozenStruct, frozen=True, kw_only=True):
    """One process in the view."""

    process_id: str
    state: State
    applied: int
    """The applied offset of its partition: the state contains all entries up to it."""
    topic_id: str
    """The id of the journal topic to which both offsets belong."""


class Listing(FrozenStruct, frozen=True, kw_only=True):
    """A page of processes, by id."""

    processes: tuple[Summary, ...]
    cursor: str
    """The argument of ``list`` for the next page; "" at the end."""
    missing: tuple[int, ...]
    """Partitions without a valid view (there is none, or a rebuild runs). Their processes are not in the list."""


class View:
    """Reads the view and changes nothing. Thread safe; blocking work runs in threads of its own.

    The view is eventually consistent, as of ``applied``. For the present state use ``Recovery``. All calls raise
    ``ViewUnavailable`` (Redis does not answer, or has no valid view), ``ViewRefused`` and ``NewerFormat``.

    >>> from seekpoint.consumers.view.memory_view import MemoryView
    >>> asyncio.run(View(MemoryView()).list()).missing
    (0, 1, 2, 3, 4, 5, 6, 7)
    """

    def __init__(self, store: ViewBrowser) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="seekpoint-view")

    @classmethod
    def connect(cls, settings: Settings | None = None) -> View:
        """Return a reader with ``settings``, by default ``Settings.load()``. It connects when first used."""
        settings = settings or Settings.load()
        if not settings.has_view:
            raise InvalidSetting("the settings name no Redis, so there is no view", setting="redis_url")
        from seekpoint.consumers.journal_log import journal_view  # a user without Redis need not install its client

        return cls(journal_view(settings))

    async def get(self, process_id: str) -> Viewed | None:
        """Return one process; None if the view is valid and has no such process. One call to Redis."""
        return await self._run(lambda: self._get(process_id))

    async def list(
        self, *, lifecycle: Lifecycle | str | None = None, prefix: str = "", limit: int = 100, cursor: str = ""
    ) -> Listing:
        """Return at most ``limit`` processes in the order of their ids, from ``cursor`` on, without their content.

        A process that exists during all calls is listed exactly once, also across a rebuild. ``prefix`` uses an index;
        ``lifecycle`` filters, so a rare one makes the call read the heads of all processes.
        """
        if lifecycle not in (None, *Lifecycle):
            raise InvalidName(f"there is no lifecycle {lifecycle!r}", hint=f"one of {', '.join(Lifecycle)}")
        return await self._run(lambda: self._list(lifecycle, prefix.encode(), max(1, limit), cursor.encode()))

    async def watch(
        self, process_id: str, *, interval_s: float = 0.2, stall_timeout_s: float = 30.0
    ) -> AsyncIterator[Viewed]:
        """Yield the process's present state, if there is one, then newer ones, until the process has finished.

        It asks for the offset every ``interval_s`` (one call of some microseconds) and reads the state only when the
        offset rose. It may skip states, but yields none twice and none that is older than the one before. Raises
        ``ViewUnavailable`` if there was no valid view for ``stall_timeout_s``.
        """
        offset = -1
        valid_at = time.monotonic()
        while True:
            try:
                viewed = await self._run(partial(self._newer, process_id, offset))
                valid_at = time.monotonic()
            except ViewUnavailable:
                if time.monotonic() - valid_at > stall_timeout_s:
                    raise
                viewed = None
            if viewed is not None:
                offset = viewed.state.offset
                yield viewed
                if viewed.state.finished:
                    return
            await asyncio.sleep(interval_s)

    async def close(self) -> None:
        """Close threads and connections. Idempotent."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._store.close()

    async def __aenter__(self) -> View:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- blocking -----------------------------------------------------------------------------------------------------
    def _get(self, process_id: str) -> Viewed | None:
        key = named_process_key(process_id)
        partition = partition_of(key, self._store.partitions())
        meta, state, _, damage = self._store.look_up(partition, key)
        if meta is None or meta.applied is None:
            raise _no_view(partition)
        if damage is not None:
            hint = "seekpoint recover reads checkpoints and the journal instead"
            raise ViewUnavailable(damage, partition=partition, process_id=process_id, hint=hint)
        if state is None:
            return None
        return Viewed(process_id=process_id, state=state, applied=meta.applied, topic_id=meta.topic_id)

    def _newer(self, process_id: str, offset: int) -> Viewed | None:
        key = named_process_key(process_id)
        partition = partition_of(key, self._store.partitions())
        meta, found = self._store.offset_of(partition, key)
        if meta is None or meta.applied is None:
            raise _no_view(partition)
        if found is None or found <= offset:
            return None
        viewed = self._get(process_id)
        return viewed if viewed is not None and viewed.state.offset > offset else None

    def _list(self, lifecycle: str | None, prefix: bytes, limit: int, cursor: bytes) -> Listing:
        missing: set[int] = set()
        streams = [
            self._stream(partition, prefix, cursor, min(limit + 1, _PAGE_MAX), missing)
            for partition in range(self._store.partitions())
        ]
        # The order by code points is the order by UTF-8 bytes.
        merged = heapq.merge(*streams, key=lambda one: one.process_id)
        wanted = (one for one in merged if lifecycle is None or one.lifecycle == lifecycle)
        found = list_of(islice(wanted, limit + 1))
        more = len(found) > limit
        return Listing(
            processes=tuple(found[:limit]),
            cursor=found[limit - 1].process_id if more else "",
            missing=tuple(sorted(missing)),
        )

    def _stream(self, partition: int, prefix: bytes, after: bytes, count: int, missing: set[int]) -> Iterator[Summary]:
        """Yield a partition's processes; read a page at a time."""
        while True:
            meta, summaries = self._store.page(partition, after, prefix, count)
            if meta is None or meta.applied is None:
                missing.add(partition)
                return
            yield from summaries
            if len(summaries) < count:
                return
            after = summaries[-1].process_id.encode()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)


list_of = list
"""The builtin, which the method ``list`` hides inside the class."""


def _no_view(partition: int) -> ViewUnavailable:
    return ViewUnavailable(
        "there is no valid view: it was never made, was flushed, or is being rebuilt",
        partition=partition,
        hint="start a projector: seekpoint serve projector; recovery works without it",
    )
