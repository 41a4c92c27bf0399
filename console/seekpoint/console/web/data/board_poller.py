"""Keep the board up to date while somebody looks: one reader for all viewers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from seekpoint.console.services.view_pages import ViewGone
from seekpoint.console.web.data.board import Board, Source
from seekpoint.console.web.data.log_source import LogSource
from seekpoint.console.web.data.view_source import ViewSource
from seekpoint.console.web.failures import log_unexpected

if TYPE_CHECKING:
    from seekpoint.console.services.target import CommandTarget

__all__ = ["BoardPoller"]

_POLL_INTERVAL_S = 1.0
_IDLE_AFTER_S = 30.0
"""How long after the last request the polling stops."""
_VIEW_RETRY_S = 15.0
_WORKERS_INTERVAL_S = 10.0
_LOG_RELOAD_S = 2.0


class BoardPoller:
    """Reads the journal once a second while somebody looks, and tells ``on_change`` when something is new.

    Nothing is read while nobody looks. Start it in the event loop that serves the pages.
    """

    def __init__(
        self,
        target: CommandTarget,
        threads: ThreadPoolExecutor,
        *,
        interval_s: float = _POLL_INTERVAL_S,
    ) -> None:
        self.board = Board(target.settings.journal)
        self.reads = 0
        """How often it read the journal."""
        self._target = target
        self._threads = threads
        self._interval_s = interval_s
        self._source: ViewSource | LogSource | None = None
        self._listeners: list[Callable[[], None]] = []
        self._wanted_at = 0.0
        self._viewers = 0
        self._view_tried_at = 0.0
        self._workers_read_at = 0.0
        self._wake = asyncio.Event()
        self._fresh = asyncio.Condition()
        self._reads_ended = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._task = asyncio.create_task(self._run(), name="seekpoint-board")

    async def stop(self) -> None:
        """End the polling, and wait for a read that is under way."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` in the event loop after each read that changed something."""
        self._listeners.append(listener)

    def watch(self) -> None:
        """Count a viewer that stays: polling goes on until ``unwatch``."""
        self._viewers += 1
        self._wake.set()

    def unwatch(self) -> None:
        """Count a viewer less."""
        self._viewers -= 1

    async def current(self, timeout_s: float = 5.0) -> Board:
        """Return the board, read at most an interval ago; or while it loads, or if no read ends in time, as it is."""
        is_stale = time.monotonic() - self._wanted_at > self._interval_s and not self._viewers
        self._wanted_at = time.monotonic()
        self._wake.set()
        if is_stale or self.board.source.loading:
            seen = self._reads_ended
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s), self._fresh:
                    await self._fresh.wait_for(lambda: self._reads_ended > seen)
        return self.board

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._viewers and time.monotonic() - self._wanted_at > _IDLE_AFTER_S:
                self._wake.clear()
                await self._wake.wait()
            before = self.board.revision, self.board.source
            await loop.run_in_executor(self._threads, self._read)
            async with self._fresh:
                self._reads_ended += 1
                self._fresh.notify_all()
            if before != (self.board.revision, self.board.source):
                for listener in self._listeners:
                    listener()
            await self._pause()

    async def _pause(self) -> None:
        """Wait an interval; for who asks only now and then, until the next question."""
        if self._viewers:
            await asyncio.sleep(self._interval_s)
            return
        self._wake.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._interval_s)

    def _read(self) -> None:
        """Read what is new. Blocks. An error is shown to viewers, and the next read tries again."""
        from seekpoint.schemas.errors import SeekpointError

        self.reads += 1
        try:
            self._read_source()
            self._read_workers()
        except SeekpointError as exc:
            self._source = None
            problem = self._target.scrub(f"{exc.message}; {exc.hint}")
            self.board.source = msgspec.structs.replace(self.board.source, problem=problem)
        except Exception as exc:  # a reader that dies would leave all pages as they are, without a word
            log_unexpected(exc, self._target.scrub)
            self._source = None
            problem = f"unexpected {type(exc).__name__}, see the console's log"
            self.board.source = msgspec.structs.replace(self.board.source, problem=problem)

    def _read_source(self) -> None:
        now = time.monotonic()
        wants_view = not isinstance(self._source, ViewSource) and now - self._view_tried_at > _VIEW_RETRY_S
        why = self.board.source.why
        if wants_view or isinstance(self._source, ViewSource):
            try:
                self._read_view()
            except ViewGone as gone:
                self._view_tried_at, why = now, gone.why
                if isinstance(self._source, ViewSource):
                    self._source = None
            else:
                return
        if self._source is None:
            fresh = LogSource(self._target)
            self.board.replace(fresh.load())
            self._source = fresh
        else:
            self.board.update(self._source.changed())
        self.board.behind = {}
        self.board.source = Source(name="log", why=why)

    def _read_view(self) -> None:
        if isinstance(self._source, ViewSource):
            source = self._source
            self.board.update(source.changed())
        else:
            source = ViewSource(self._target)
            self.board.replace(source.load())
            self._source = source
        self.board.behind = source.behind
        self.board.source = Source(name="view", behind=sum(source.behind.values()))

    def _read_workers(self) -> None:
        from seekpoint.consumers.heartbeats.worker_code import worker_code

        if self.board.code is None or time.monotonic() - self._workers_read_at > _WORKERS_INTERVAL_S:
            self.board.code = worker_code(self._target.log)
            self._workers_read_at = time.monotonic()
