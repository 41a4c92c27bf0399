"""The clocks that processes wait by: the machine's, and a virtual one for tests that skips waiting."""

from __future__ import annotations

import asyncio
import heapq
import time
from contextlib import AbstractAsyncContextManager
from itertools import count
from types import TracebackType
from typing import Protocol

_LOOK_S = 60.0
"""How often ``until`` looks at the wall clock."""


class Clock(Protocol):
    """A source of wall time and monotonic time, by which a process waits."""

    def now_us(self) -> int:
        """Return the microseconds since 1970; they may jump."""

    def monotonic(self) -> float:
        """Return the seconds since some moment; they never go back."""

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` of monotonic time."""

    async def until(self, due_us: int) -> None:
        """Return once ``now_us()`` is at least ``due_us``, never before, however the wall clock jumps."""

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Cancel an ``async with`` block that takes longer, and raise ``TimeoutError``. None sets no limit."""


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Return the microseconds since 1970."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        await asyncio.sleep(seconds)

    async def until(self, due_us: int) -> None:
        """Return once the moment has come; a minute late at most if the wall clock jumps or the machine sleeps."""
        while (left_us := due_us - self.now_us()) > 0:  # noqa: ASYNC110  # there is no event for a wall clock that was set
            await asyncio.sleep(min(left_us / 1_000_000, _LOOK_S))

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Limit an ``async with`` block, as ``asyncio.timeout`` does."""
        return asyncio.timeout(seconds)


class VirtualClock:
    """A clock that stands still while other work goes on, and then jumps to the moment when the next sleeper wakes.

    A sleep of days takes a millisecond. ``advance(seconds)`` moves the clock by hand; with ``skips=False`` it never
    jumps by itself. It jumps after ``patience_s``, also while threads run or tasks wait by the machine's clock.
    """

    def __init__(self, now_us: int = 1_700_000_000_000_000, *, skips: bool = True, patience_s: float = 0.001) -> None:
        self._start_us = now_us
        self._now = 0.0
        self._skips = skips
        self._patience_s = patience_s
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._waking: asyncio.TimerHandle | None = None

    def now_us(self) -> int:
        """Return the microseconds since 1970, by this clock."""
        return self._start_us + round(self._now * 1_000_000)

    def monotonic(self) -> float:
        """Return the seconds that this clock has moved."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has moved that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        self._watch()
        await woken

    async def until(self, due_us: int) -> None:
        """Return once the clock has moved that far."""
        while (left_us := due_us - self.now_us()) > 0:
            await self.sleep(left_us / 1_000_000)

    def advance(self, seconds: float) -> None:
        """Move the clock by hand, and wake the sleepers whose moment has come."""
        self._wake(self._now + seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Limit an ``async with`` block, as ``asyncio.timeout`` does, by this clock."""
        return _VirtualTimeout(self, seconds)

    def _watch(self) -> None:
        if self._skips and self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(self._patience_s, self._skip)

    def _skip(self) -> None:
        self._waking = None
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # a cancelled sleeper must not move the clock
        if self._sleepers:
            self._wake(self._sleepers[0][0])
        if self._sleepers:
            self._watch()

    def _wake(self, until: float) -> None:
        self._now = max(self._now, until)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)


class _VirtualTimeout:
    """An ``asyncio.timeout`` that a task ends, which sleeps by a virtual clock."""

    def __init__(self, clock: VirtualClock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = asyncio.timeout(None)
        self._sleeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> asyncio.Timeout:
        await self._limit.__aenter__()
        if self._seconds is not None:
            self._sleeper = asyncio.create_task(self._expire(self._seconds))
        return self._limit

    async def _expire(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._limit.reschedule(asyncio.get_running_loop().time())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        await self._limit.__aexit__(kind, error, trace)  # raises TimeoutError where it was this limit
        return None
