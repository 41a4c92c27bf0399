"""Read something again and again while somebody looks at it: one reader for all viewers."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

_IDLE_AFTER_S = 30.0
"""How long after the last request the polling stops."""


class Poller(ABC):
    """Reads once an interval while somebody looks, and calls the listeners of ``on_change`` when something is new.

    Nothing is read while nobody looks. Start it in the event loop that serves the pages.
    """

    def __init__(self, threads: ThreadPoolExecutor, interval_s: float) -> None:
        self.reads = 0
        """How often it read."""
        self._threads = threads
        self._interval_s = interval_s
        self._listeners: list[Callable[[], None]] = []
        self._wanted_at = 0.0
        self._viewers = 0
        self._wake = asyncio.Event()
        self._fresh = asyncio.Condition()
        self._reads_ended = 0
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    def read(self) -> None:
        """Read what is new. It blocks, in a thread. It never raises: viewers are shown what went wrong."""

    @abstractmethod
    def version(self) -> object:
        """Return a value that is another one after a read that changed something."""

    @property
    @abstractmethod
    def is_loading(self) -> bool:
        """Whether nothing was read yet."""

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._task = asyncio.create_task(self._run(), name=f"seekpoint-{type(self).__name__}")

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

    async def wait_until_fresh(self, timeout_s: float) -> None:
        """Return once what was read is at most an interval old, or at the time-out."""
        is_stale = time.monotonic() - self._wanted_at > self._interval_s and not self._viewers
        self._wanted_at = time.monotonic()
        self._wake.set()
        if is_stale or self.is_loading:
            seen = self._reads_ended
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s), self._fresh:
                    await self._fresh.wait_for(lambda: self._reads_ended > seen)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._viewers and time.monotonic() - self._wanted_at > _IDLE_AFTER_S:
                self._wake.clear()
                await self._wake.wait()
            before = self.version()
            self.reads += 1
            await loop.run_in_executor(self._threads, self.read)
            async with self._fresh:
                self._reads_ended += 1
                self._fresh.notify_all()
            if before != self.version():
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
