"""Seekpoint for programs that are not async: a node whose event loop runs in a thread of its own.

    with SyncNode.connect() as node, node.open("case-17") as process:
        answer = process.step("ask", ask_model, "Where is my order?")
        process.update("status", answer)

There is no second implementation behind it: each call is made in the loop, and waited for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from seekpoint.producers.clocks import Clock
from seekpoint.producers.durable.agents import Agent
from seekpoint.producers.durable.running import RECORDED
from seekpoint.producers.errands import Bridged, Errands, SyncProcess
from seekpoint.producers.node import Node
from seekpoint.schemas.errors import HandleClosed
from seekpoint.schemas.settings import Settings

if TYPE_CHECKING:
    from seekpoint.consumers import Recovered
    from seekpoint.producers.opening import Opening
    from seekpoint.producers.process import Process
    from seekpoint.schemas.memory_log import MemoryLog

__all__ = ["SyncNode", "SyncOpening", "SyncProcess"]

_LEAVE_S = 30.0
_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="seekpoint-sync", daemon=True)
        self._thread.start()

    def begin(self, make: Callable[[], Awaitable[Any]]) -> Future[Any]:
        """Have it done; what it will give."""

        async def work() -> Any:
            return await make()

        if self._loop.is_closed():
            raise HandleClosed("the node was closed", hint="use a node that is open")
        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def ask(self, make: Callable[[], Any]) -> Any:
        """What ``make()`` gives in the loop, awaited if it can be. From any thread but the loop's."""

        async def made() -> Any:
            found = make()
            return await found if hasattr(found, "__await__") else found

        return waited(self.begin(made))

    def end(self) -> None:
        """End the loop and its thread; what still runs in it is cancelled."""
        if not self._loop.is_closed():
            with suppress(*_CANCELLED):
                self.begin(_cancel_others).result(_LEAVE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_LEAVE_S)
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def waited(begun: Future[Any]) -> Any:
    """What it gives. Interrupted (Ctrl-C), it is cancelled, and left once it is over."""
    try:
        return begun.result()
    except BaseException:
        if not begun.done():
            begun.cancel()
            with suppress(BaseException):
                concurrent.futures.wait([begun], _LEAVE_S)
        raise


class SyncNode(Bridged):
    """A ``Node`` for code that is not async: ``with SyncNode.connect(settings) as node``. Every thread may use it.

    All of ``Node``'s calls, without ``await``. Agents may be plain functions, or async as ever.
    """

    def __init__(self, make: Callable[[], Node]) -> None:
        self._make = make
        self._looped: _LoopThread | None = None

    @classmethod
    def connect(cls, settings: Settings | None = None, *, projector: bool = False, **overrides: Any) -> SyncNode:
        """A node on Kafka; see ``Node.connect``."""
        return cls(lambda: Node.connect(settings, projector=projector, **overrides))

    @classmethod
    def in_memory(cls, log: MemoryLog | None = None, *, clock: Clock | None = None, **settings: Any) -> SyncNode:
        """A node on a log in memory; see ``Node.in_memory``."""
        return cls(lambda: Node.in_memory(log, clock=clock, **settings))

    def __enter__(self) -> SyncNode:
        self._looped = looped = _LoopThread()

        async def started() -> Node:
            return await self._make().start()

        try:
            super().__init__(looped.ask, looped.ask(started))
        except BaseException:
            looped.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._looped is not None
        try:
            self._looped.ask(self._target.close)
        finally:
            self._looped.end()

    def open(self, process_id: str, **how: Any) -> SyncOpening:
        """Own a process: ``with node.open(id) as process``; leaving releases. See ``Node.open``."""
        return SyncOpening(self._thread, lambda: self._target.open(process_id, **how))

    def fork(self, parent_id: str, process_id: str, *, at_seq: int | None = None) -> SyncOpening:
        """Start a process with another's content: ``with node.fork("a", "b") as process``. See ``Node.fork``."""
        return SyncOpening(self._thread, lambda: self._target.fork(parent_id, process_id, at_seq=at_seq))

    def run(self, agent: Agent, process_id: str, input: Any = RECORDED, **how: Any) -> Any:  # the word users know
        """Run an agent as the process: its result, confirmed. See ``Node.run``."""
        return self._thread.ask(lambda: self._target.run(agent, process_id, input, **how))

    if TYPE_CHECKING:

        def recover(self, process_id: str, **how: Any) -> Recovered: ...
        def signal(
            self, process_id: str, name: str, payload: Any = None, *, actor: str | None = None,
            signal_id: bytes | None = None,
        ) -> bytes: ...  # fmt: skip
        def is_delivered(self, process_id: str, signal_id: bytes) -> bool: ...
        def approve(
            self, process_id: str, gate: str, *, reason: str | None = None, actor: str | None = None
        ) -> bytes: ...
        def deny(self, process_id: str, gate: str, *, reason: str | None = None, actor: str | None = None) -> bytes: ...
        def cancel(self, process_id: str, reason: str | None = None, *, actor: str | None = None) -> bytes: ...

    @property
    def _thread(self) -> _LoopThread:
        if self._looped is None:
            raise HandleClosed("the node was not started", hint="with SyncNode.connect() as node: ...")
        return self._looped


class SyncOpening:
    """A process about to be opened: ``with`` it."""

    def __init__(self, looped: _LoopThread, make: Callable[[], Opening]) -> None:
        self._looped = looped
        self._make = make
        self._ready: Future[tuple[Process, Errands]] = Future()
        self._served: Future[Any] | None = None
        self._errands: Errands | None = None

    def __enter__(self) -> SyncProcess:
        self._served = self._looped.begin(self._serve)
        try:
            process, self._errands = self._ready.result()
        except BaseException:
            self._served.cancel()
            concurrent.futures.wait([self._served], _LEAVE_S)
            raise
        return SyncProcess(self._errands.ask, process)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._served is not None
        assert self._errands is not None
        # An interrupt is no failure of the process: it is released as it stands, as a cancelled task's is.
        told = error if error is None or isinstance(error, Exception) else asyncio.CancelledError()
        self._errands.end(error=told)
        try:
            waited(self._served)
        except _CANCELLED:
            if error is None:
                raise
        except BaseException as exc:
            if exc is not error:
                raise

    async def _serve(self) -> None:
        try:
            async with self._make() as process:
                errands = Errands()
                self._ready.set_result((process, errands))
                await errands.serve()
        except BaseException as exc:
            if not self._ready.done():
                self._ready.set_exception(exc)
            raise
