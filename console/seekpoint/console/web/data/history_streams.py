"""Server-sent events about histories: what is appended is read once, however many look at a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from seekpoint.console.web.data.streams import event_text
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from seekpoint.console.web.data.histories import Histories, ProcessHistory

_INTERVAL_S = 1.0
_RETRY_S = 3.0
_SLICE_S = 0.1
_KEEP_ALIVE_S = 15.0


class HistoryProgress(FrozenStruct, frozen=True, kw_only=True):
    """The part of a history that was read."""

    entries: int = 0
    calls: int = 0
    is_complete: bool = False
    problem: str | None = None
    """Why nothing can be read at the moment."""


class HistoryStreams:
    """Follows each process that somebody looks at, and tells all who do."""

    def __init__(self, histories: Histories, threads: ThreadPoolExecutor, scrub: Callable[[str], str]) -> None:
        self._histories = histories
        self._threads = threads
        self._scrub = scrub
        self._watches: dict[str, _Watch] = {}
        self._closed = False

    def close(self) -> None:
        """End all streams, so that a server that stops need not wait for viewers."""
        self._closed = True
        for watch in self._watches.values():
            watch.wake()

    async def stop(self) -> None:
        """Wait for reads that are under way."""
        self.close()
        for task in [watch.task for watch in self._watches.values() if watch.task is not None]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def follow(
        self, process_id: str, render: Callable[[HistoryProgress], Awaitable[bytes]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield an event ``history`` now and after each change; comments keep the connection open."""
        watch = self._watches.setdefault(process_id, _Watch())
        watch.viewers += 1
        if watch.task is None:
            watch.task = asyncio.create_task(self._run(process_id, watch), name="seekpoint-history")
        seen = -1
        try:
            yield b"retry: 1000\n\n"
            while not self._closed:
                if watch.version == seen:
                    yield b": still here\n\n"
                elif watch.version > 0:
                    seen = watch.version
                    yield event_text("history", await render(watch.progress))
                await watch.wait(seen)
        finally:
            watch.viewers -= 1
            if watch.viewers == 0:
                self._watches.pop(process_id, None)
                if watch.task is not None:
                    watch.task.cancel()

    async def _run(self, process_id: str, watch: _Watch) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed:
            progress = await loop.run_in_executor(self._threads, self._read, process_id)
            if progress != watch.progress or watch.version == 0:
                watch.tell(progress)
            if progress.is_complete or progress.problem is not None:
                await asyncio.sleep(_RETRY_S if progress.problem is not None else _INTERVAL_S)

    def _read(self, process_id: str) -> HistoryProgress:
        from seekpoint.console.web.failures import failure_of

        try:
            history: ProcessHistory = self._histories.of(process_id)
            is_complete = history.read_on(_SLICE_S)
            calls = history.calls_read
        except Exception as error:  # the stream goes on, and says what is wrong
            return HistoryProgress(problem=failure_of(error, self._scrub)[1].message)
        return HistoryProgress(entries=len(history.index.marks), calls=calls, is_complete=is_complete)


class _Watch:
    """A process that somebody looks at."""

    def __init__(self) -> None:
        self.viewers = 0
        self.version = 0
        self.progress = HistoryProgress()
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def tell(self, progress: HistoryProgress) -> None:
        self.progress = progress
        self.version += 1
        self.wake()

    def wake(self) -> None:
        """Wake all who wait."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seen: int) -> None:
        """Wait until the version is another one, somebody wakes all, or for a while."""
        if self.version in (seen, 0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _KEEP_ALIVE_S)
