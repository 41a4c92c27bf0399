"""The threads in which a node runs users' plain functions.

A call takes a free thread first and begins at once in it, so a time-out counts no wait. A call that outlives its caller
keeps its thread; the node begins others beside it, up to ``LATE_MAX``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

from seekpoint.consumers.recovery.threads import Threads

logger = logging.getLogger("seekpoint.producers")

BODY_THREADS_MAX = 32
"""How many plain functions run at once; the next one waits."""
LATE_MAX = 96
"""How many calls that outlived their callers are replaced by further threads."""

RunInThread: TypeAlias = "Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]"


class BodyThreads:
    """The threads for the calls of one node. Use it from the node's event loop; any thread may read the counts."""

    def __init__(self) -> None:
        self._threads = Threads(max_workers=BODY_THREADS_MAX + LATE_MAX, thread_name_prefix="seekpoint-body")
        self._free = asyncio.Semaphore(BODY_THREADS_MAX)
        self.late = 0
        """How many calls run on although their time-out is over, or their caller was cancelled."""
        self.waiting = 0
        """How many calls wait for a free thread."""

    @property
    def is_used_up(self) -> bool:
        """Whether calls wait while every thread belongs to one that outlived its caller: none may ever become free."""
        return self.waiting > 0 and self.late >= BODY_THREADS_MAX + LATE_MAX

    @property
    def shortage(self) -> str | None:
        """Say that calls wait for a thread; None if none does."""
        if not self.waiting:
            return None
        return f"no thread is free for plain functions: {self.waiting} calls wait, {self.late} outlived their callers"

    async def take(self, key: str) -> RunInThread:
        """Wait until a thread is free for the call ``key``; return what runs a function in it, once and at once."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        return partial(self._run, key)

    async def _run(self, key: str, call: Callable[[], Any]) -> Any:
        """Run ``call`` for the call ``key``, with the context variables of the caller.

        What no future can carry (``StopIteration``, a cancellation) and what would end the event loop (an exit) is
        raised as a ``RuntimeError``.
        """
        try:
            work = self._threads.submit(copy_context().run, _carried, call)
        except BaseException:
            self._free.release()
            raise
        try:
            return await asyncio.wrap_future(work)
        finally:
            if work.done():
                self._free.release()
            else:
                self._leave(work, key)

    def _leave(self, work: Future[Any], key: str) -> None:
        """Count a call that runs on without its caller, and replace its thread."""
        self.late += 1
        logger.warning("%s still runs in its thread, though its caller has left; such calls: %d", key, self.late)
        if self.late <= LATE_MAX:
            self._free.release()
        loop = asyncio.get_running_loop()

        def end(_: Future[Any]) -> None:
            with suppress(RuntimeError):  # the event loop was closed
                loop.call_soon_threadsafe(self._end_late)

        work.add_done_callback(end)

    def _end_late(self) -> None:
        if self.late > LATE_MAX:
            self._free.release()
        self.late -= 1

    def close(self) -> None:
        """Begin no more calls, and do not wait for those that run."""
        self._threads.close()


def _carried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BaseException as exc:
        if isinstance(exc, Exception) and not isinstance(exc, StopIteration | CancelledError):
            raise
        from seekpoint.producers.durable.failures.program_exits import as_failure

        raise as_failure(exc, "the call") from None
