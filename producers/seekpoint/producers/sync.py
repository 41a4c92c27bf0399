"""Seekpoint for programs that are not async: a node whose event loop runs in a thread of its own.

    with SyncNode.connect() as node, node.open("case-17") as process:
        answer = process.step("ask", ask_model, "Where is my order?")
        process.update("status", answer)

There is no second implementation behind it: each call is made in the loop, and waited for.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from seekpoint.producers.agent_run import RECORDED
from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.durable.steps.thread_bridge import (
    LEAVE_S,
    SyncProcess,
    SyncProxy,
    ThreadBridge,
    closed,
    is_silent,
    leave,
    waited,
)
from seekpoint.producers.node import Node
from seekpoint.producers.writer.clocks import Clock
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import HandleClosed, Refused

if TYPE_CHECKING:
    from seekpoint.consumers import Recovered
    from seekpoint.producers.opening import Opening
    from seekpoint.producers.process import Process
    from seekpoint.schemas.log.memory_log import MemoryLog

__all__ = ["SyncNode", "SyncOpening", "SyncProcess"]


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._tasks: dict[Future[Any], asyncio.Task[None]] = {}
        self._last: asyncio.Task[None] | None = None
        self._is_ended = False
        self._ending = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="seekpoint-sync", daemon=True)

    # --- in other threads
    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    def begin(self, make: Callable[[], Any], answer: Future[Any]) -> None:
        """Have it done: what ``make()`` gives in the loop, awaited if it can be, is the ``answer``."""
        self._post(self._start, make, answer)

    def call_off(self, answer: Future[Any]) -> None:
        """Call off what was begun, or was about to be."""
        self._post(self._stop, answer)

    def ask(self, make: Callable[[], Any]) -> Any:
        """Have it done, and wait for it. Interrupted (Ctrl-C), it is called off first."""
        return waited(Future(), partial(self.begin, make), self.call_off)

    @property
    def is_gone(self) -> bool:
        """Whether nobody ended it and yet it never answers: in a fork, or as the interpreter ends. Leave it alone."""
        return not self._is_ended and self._thread.ident is not None and is_silent(self._thread)

    def end(self) -> None:
        """End the loop and its thread. What still runs in it is cancelled, and whoever waits for it is told."""
        with self._ending:
            if not self._is_ended:
                self._is_ended = True
                self._loop.call_soon_threadsafe(self._end)
        try:
            self._thread.join(0 if sys.is_finalizing() else LEAVE_S)
        except RuntimeError:  # it was interrupted before it began
            self._loop.close()

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        if threading.current_thread() is self._thread:
            hint = "in async code, await the calls of process.node; or make the function a plain one"
            raise Refused("a call of a SyncNode in its own event loop would wait for itself", hint=hint)
        with self._ending:
            if self._is_ended or self.is_gone:
                raise closed()
            self._loop.call_soon_threadsafe(call, *arguments)

    # --- in the loop
    def _run(self) -> None:
        try:
            while self._last is None or not self._last.done():
                with suppress(SystemExit, KeyboardInterrupt):  # in a task of its own: who awaits it is told as well
                    self._loop.run_forever()
        finally:
            self._loop.close()

    def _start(self, make: Callable[[], Any], answer: Future[Any]) -> None:
        self._tasks[answer] = task = self._loop.create_task(_answered(make, answer))
        task.add_done_callback(lambda _: self._done(answer))

    def _stop(self, answer: Future[Any]) -> None:
        if task := self._tasks.get(answer):
            task.cancel()
        elif not answer.done():  # it was not begun
            answer.set_exception(asyncio.CancelledError())

    def _end(self) -> None:
        self._last = self._loop.create_task(_cancel_others())
        self._last.add_done_callback(lambda _: self._loop.stop())

    def _done(self, answer: Future[Any]) -> None:
        del self._tasks[answer]
        if not answer.done():
            answer.set_exception(closed() if self._is_ended else asyncio.CancelledError())


async def _answered(make: Callable[[], Any], answer: Future[Any]) -> None:
    try:
        found = make()
        answer.set_result(await found if inspect.isawaitable(found) else found)
    except asyncio.CancelledError:
        raise
    except BaseException as exc:  # sys.exit() too is for whoever asked, not for the loop
        answer.set_exception(exc)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


class SyncNode(SyncProxy):
    """A ``Node`` for code that is not async: ``with SyncNode.connect(settings) as node``. Every thread may use it.

    All of ``Node``'s calls, without ``await``. Agents may be plain functions, or async as ever.
    """

    def __init__(self, make: Callable[[], Node]) -> None:
        self._make = make
        self._looped: _LoopThread | None = None
        super().__init__(_not_started, None)

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
            looped.start()
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
            if not self._looped.is_gone:
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
            self, process_id: str, gate: str, *, reason: str | None = None, actor: str | None = None,
            in_advance: bool = False,
        ) -> bytes: ...  # fmt: skip
        def deny(
            self, process_id: str, gate: str, *, reason: str | None = None, actor: str | None = None,
            in_advance: bool = False,
        ) -> bytes: ...  # fmt: skip
        def cancel(self, process_id: str, reason: str | None = None, *, actor: str | None = None) -> bytes: ...

    @property
    def _thread(self) -> _LoopThread:
        return self._looped or _not_started()


def _not_started(make: object = None) -> NoReturn:
    raise HandleClosed("the node was not started", hint="with SyncNode.connect() as node: ...")


class SyncOpening:
    """A process about to be opened: ``with`` it."""

    def __init__(self, looped: _LoopThread, make: Callable[[], Opening]) -> None:
        self._looped = looped
        self._make = make
        self._ready: Future[tuple[Process, ThreadBridge]] = Future()
        self._served: Future[None] = Future()
        self._served.add_done_callback(self._not_ready)
        self._errands: ThreadBridge | None = None

    def __enter__(self) -> SyncProcess:
        try:
            self._looped.begin(self._serve, self._served)
            process, self._errands = self._ready.result()
            opened = SyncProcess(self._errands.ask, process)
        except BaseException:
            leave(self._served, self._looped.call_off)
            raise
        return opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._errands is not None
        try:
            if error is None or isinstance(error, Exception):
                self._errands.end(error=error)
                if not self._looped.is_gone:
                    self._served.result()
        except BaseException as exc:
            # Of an error that comes through here it is known already that the process, or the node, was closed.
            if exc is not error and not (error and isinstance(exc, asyncio.CancelledError | HandleClosed)):
                raise
        finally:  # an interrupt is no failure of the process: it is released as it stands, as a cancelled task's is
            leave(self._served, self._looped.call_off)

    async def _serve(self) -> None:
        async with self._make() as process:
            errands = ThreadBridge(closed)
            self._ready.set_result((process, errands))
            await errands.serve()

    def _not_ready(self, served: Future[None]) -> None:
        error = served.exception()
        if error is not None and not self._ready.done():
            self._ready.set_exception(error)
