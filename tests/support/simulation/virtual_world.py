"""Workers on a log in memory whose time is virtual: hours of it take milliseconds, and each run of it is the same.

Nothing runs in a thread. The event loop's time jumps to the next timer as soon as nothing is left to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

from seekpoint.consumers.heartbeats import liveness
from seekpoint.consumers.recovery import recovery
from seekpoint.consumers.recovery.threads import Threads
from seekpoint.producers import client, client_runtime, node_runtime
from seekpoint.producers.tail import tailer
from seekpoint.producers.tail.tail_follower import Follower
from seekpoint.producers.worker.submission_intake import SubmissionIntake
from seekpoint.producers.writer.clocks import SystemClock
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.log.log_ports import Record

__all__ = ["LoopClock", "LoopLog", "VirtualLoop", "in_virtual_time"]

T = TypeVar("T")
_RECORDS_MAX = 300
_THREAD_S = 5.0
"""How long the loop waits for a thread where it has no timer."""
_ROUND_S = 0.000_02
"""How long one round of the loop takes: what never waits for a timer takes time, too."""
_BEGAN_US = time.time_ns() // 1_000


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that waits for no timer: its time jumps there."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        select: Callable[[float | None], Any] = self._selector.select  # type: ignore[attr-defined]

        def skipping(timeout: float | None = None) -> Any:
            events = select(0 if timeout is not None else _THREAD_S)
            if not events:
                assert timeout is not None, "every task waits for something that nobody does"
                self.now_s += timeout
            self.now_s += _ROUND_S
            return events

        self._selector.select = skipping  # type: ignore[attr-defined]

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self.now_s


class LoopClock(SystemClock):
    """The clock of a virtual loop."""

    def now_us(self) -> int:
        """Return the microseconds since 1970."""
        return _BEGAN_US + round(self.monotonic() * 1_000_000)

    def monotonic(self) -> float:
        """Return the time of the loop."""
        return asyncio.get_running_loop().time()


class LoopLog(MemoryLog):
    """A log that tells followers in the loop of each record."""

    def __init__(self, partitions: int = 2) -> None:
        super().__init__(partitions)
        self.on_append: set[Callable[[], object]] = set()
        self.overfull = asyncio.Event()
        """Set once the log has more records than any test writes: somebody does not stop."""

    def append(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> int:
        offset = super().append(partition, key, value, timestamp_ms)
        for tell in list(self.on_append):
            tell()
        if offset > _RECORDS_MAX:
            self.overfull.set()
        return offset

    def topic(self, name: str) -> MemoryLog:
        return self._topics.setdefault(name, LoopLog(self.partitions))

    @property
    def records(self) -> int:
        """Return how many records the journal and its inbox have."""
        logs = (self, self.topic("inbox"))
        return sum(log.watermarks(partition).high for log in logs for partition in range(self.partitions))


class _LoopFollower(Follower):
    """A follower that polls in the loop, whenever a record comes."""

    def start(self, loop: asyncio.AbstractEventLoop, on_batch: Any) -> None:
        self._loop, self._on_batch, self._following = loop, on_batch, dict[int, tuple[int, int]]()
        self._tail, self._is_due = self._reader.tail(), False
        self._reader.on_append.add(self._soon)  # type: ignore[attr-defined]

    def begin(self, partition: int, position: int, generation: int) -> None:
        super().begin(partition, position, generation)
        self._soon()

    def _soon(self) -> None:
        if not self._is_due and not self._closed and self._loop is not None:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_due, self.rounds = False, self.rounds + 1
        self._adjust(self._tail, self._following)
        for batch in self._tail.poll(0):
            if batch.partition in self._following:
                generation = self._following[batch.partition][0]
                self._following[batch.partition] = generation, batch.next_offset
                self._on_batch(generation, batch)  # type: ignore[misc]

    @property
    def may_lag(self) -> bool:
        return False

    def close(self) -> None:
        self._closed = True
        self._reader.on_append.discard(self._soon)  # type: ignore[attr-defined]


class _Inline(Threads):
    """An executor that runs each call at once, in the loop."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        outcome: Future[T] = Future()
        try:
            outcome.set_result(fn(*args, **kwargs))
        except Exception as exc:
            outcome.set_exception(exc)
        return outcome


def _poll(intake: SubmissionIntake) -> list[Record]:
    return intake._member.poll(0)


async def _in_loop(intake: SubmissionIntake, call: Callable[[], T]) -> T:
    found = call()
    if not found:
        await asyncio.sleep(0.2)
    return found


@contextmanager
def _without_threads() -> Iterator[None]:
    with (
        mock.patch.object(node_runtime, "Threads", _Inline),
        mock.patch.object(client_runtime, "Threads", _Inline),
        mock.patch.object(recovery, "Threads", _Inline),
        mock.patch.object(tailer, "Follower", _LoopFollower),
        mock.patch.object(liveness, "time", SimpleNamespace(monotonic=LoopClock().monotonic)),
        mock.patch.object(client, "now_us", LoopClock().now_us),
        mock.patch.object(SubmissionIntake, "_poll", _poll),
        mock.patch.object(SubmissionIntake, "_in_thread", _in_loop),
    ):
        yield


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in a virtual loop, without threads."""
    loop = VirtualLoop()
    loop.set_default_executor(_Inline())
    with _without_threads(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)
