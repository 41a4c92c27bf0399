"""Seekpoint for programs that are not async: a node whose event loop runs in a thread of its own.

with SyncNode.connect() as node, node.open("case-17") as process:
    answer = process.step("ask", ask_model, "Where is my order?")
    process.update("status", answer)
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from seekpoint.producers.client import Client
from seekpoint.producers.node import Node
from seekpoint.producers.sync_process import LEAVE_S, LoopCalls, SyncProcess, SyncProxy, closed
from seekpoint.producers.writer.clocks import Clock
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import HandleClosed

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import Generic, Literal, Self, TypeVar, Unpack, cast, overload

    from seekpoint.producers.client import SubmitOptions, SubmittedRun
    from seekpoint.producers.durable.steps.agent import Agent, Input, Output, OutputT
    from seekpoint.producers.process_pool import ProcessPool
    from seekpoint.producers.shared_writing.shared_process import SharedProcess
    from seekpoint.producers.sync_process import blocking
    from seekpoint.schemas.log.memory_log import MemoryLog
    from seekpoint.schemas.state.process_state import State

    T = TypeVar("T")

__all__ = ["SyncClient", "SyncNode", "SyncProcess"]


class _SyncMain(SyncProxy):
    """An object with ``start`` and ``close`` whose event loop runs in a thread of its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__(_not_started, None)
        self._make = make

    def __enter__(self) -> Self:
        self._looped = looped = _LoopThread()
        try:
            self._target = looped.calls(self._started)
        except BaseException:
            looped.end()
            raise
        self._calls = looped.calls
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self._looped.calls.is_gone:
                self._looped.calls(self._target.close)
        finally:
            self._looped.end()

    def call(self, work: Coroutine[Any, Any, T] | Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` in the event loop of this object; return or raise its outcome. Every thread may call it.

        ``work`` is a coroutine, or an async function that gets the async object (``Node``, ``Client``). An interrupt
        (Ctrl-C) cancels it. In async code use ``call_async``. Raises ``HandleClosed`` once this object is closed.
        """
        try:
            result: T = self._calls(partial(_begun, work, self._target))
        finally:
            _never_awaited(work)
        return result

    async def call_async(self, work: Coroutine[Any, Any, T] | Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` as ``call`` does, from any event loop, which goes on meanwhile. Cancelled, it cancels ``work``.

        A node is for one event loop: so code in several loops shares a ``SyncNode`` and calls it by this.
        """
        calls = self._calls
        if not isinstance(calls, LoopCalls):
            _never_awaited(work)
            _not_started(work)
        if calls.is_in_loop:
            result: T = await _begun(work, self._target)
            return result
        try:
            result = await calls.awaited(partial(_begun, work, self._target))
        finally:
            _never_awaited(work)
        return result

    async def _started(self) -> Any:
        return await self._make().start()


class SyncNode(_SyncMain):
    """A ``Node`` for code that is not async: ``with SyncNode.connect(settings) as node``. Every thread may use it.

    All of ``Node``'s calls, without ``await``. Agents may be plain functions, or async as ever.
    """

    @classmethod
    def connect(cls, settings: Settings | None = None, *, projector: bool = False, **overrides: Any) -> SyncNode:
        """Make a node on Kafka; see ``Node.connect``."""
        return cls(lambda: Node.connect(settings, projector=projector, **overrides))

    @classmethod
    def local(cls, path: str | PathLike[str], **settings: Any) -> SyncNode:
        """Make a node on an embedded log; see ``Node.local``."""
        return cls(lambda: Node.local(path, **settings))

    @classmethod
    def in_memory(cls, log: MemoryLog | None = None, *, clock: Clock | None = None, **settings: Any) -> SyncNode:
        """Make a node on a log in memory; see ``Node.in_memory``."""
        return cls(lambda: Node.in_memory(log, clock=clock, **settings))

    if TYPE_CHECKING:
        _target = cast(Node, None)

        @overload
        def open(
            self, process_id: str, *, shared: Literal[False] = False, take_over: bool = False,
            accept_degraded: bool = False, wait_s: float = 0.0, actor: str | None = None,
            correlation_id: str | None = None, replay: str = "strict", detail: str = "full",
        ) -> AbstractContextManager[SyncProcess]: ...  # fmt: skip
        @overload
        def open(
            self, process_id: str, *, shared: Literal[True], actor: str | None = None, correlation_id: str | None = None
        ) -> AbstractContextManager[_SyncSharedProcess]: ...
        def open(self, process_id: str, **how: Any) -> Any: ...

        append = blocking(_target.append)
        delete = blocking(_target.delete)
        fork = blocking(_target.fork)
        rewind = blocking(_target.rewind)
        diff = blocking(_target.diff)
        lineage = blocking(_target.lineage)
        plan_fork = blocking(_target.plan_fork)
        promote = blocking(_target.promote)
        rerun = blocking(_target.rerun)
        plan_rerun = blocking(_target.plan_rerun)
        rerun_many = blocking(_target.rerun_many)
        run = blocking(_target.run)
        recover = blocking(_target.recover)
        recover_many = blocking(_target.recover_many)
        entries = blocking(_target.entries)
        records = blocking(_target.records)
        read_attachment = blocking(_target.read_attachment)
        processes = blocking(_target.processes)
        signal = blocking(_target.signal)
        is_delivered = blocking(_target.is_delivered)
        approve = blocking(_target.approve)
        deny = blocking(_target.deny)
        cancel = blocking(_target.cancel)
        verdict = blocking(_target.verdict)
        revoke = blocking(_target.revoke)


class SyncClient(_SyncMain):
    """A ``Client`` for code that is not async: ``with SyncClient.connect(settings) as client``.

    Every thread may use it. All of ``Client``'s calls and of its handles', without ``await``.
    """

    @classmethod
    def connect(cls, settings: Settings | None = None, **overrides: Any) -> SyncClient:
        """Make a client on Kafka; see ``Client.connect``."""
        return cls(lambda: Client.connect(settings, **overrides))

    @classmethod
    def local(cls, path: str | PathLike[str], **settings: Any) -> SyncClient:
        """Make a client on an embedded log; see ``Client.local``."""
        return cls(lambda: Client.local(path, **settings))

    @classmethod
    def in_memory(cls, log: MemoryLog, **settings: Any) -> SyncClient:
        """Make a client on a log in memory; see ``Client.in_memory``."""
        return cls(lambda: Client.in_memory(log, **settings))

    if TYPE_CHECKING:
        _target = cast(Client, None)
        status = blocking(_target.status)
        state = blocking(_target.state)
        signal = blocking(_target.signal)
        approve = blocking(_target.approve)
        deny = blocking(_target.deny)
        cancel = blocking(_target.cancel)
        suspend = blocking(_target.suspend)
        resume = blocking(_target.resume)
        redrive = blocking(_target.redrive)
        verdict = blocking(_target.verdict)
        revoke = blocking(_target.revoke)
        redrive_failed = blocking(_target.redrive_failed)
        schedules = blocking(_target.schedules)
        read_attachment = blocking(_target.read_attachment)
        pause_schedule = blocking(_target.pause_schedule)
        resume_schedule = blocking(_target.resume_schedule)

        @overload
        def result(self, process_id: str, timeout: float | None = None) -> Any: ...
        @overload
        def result(self, process_id: str, timeout: float | None = None, *, type: type[T] | Agent[Any, T]) -> T: ...
        @overload
        def result(self, process_id: str, timeout: float | None = None, *, type: Any) -> Any: ...
        def result(self, process_id: str, timeout: float | None = None, *, type: Any = None) -> Any: ...

        def trigger_schedule(self, agent: Agent | str, *, actor: str | None = None) -> _SyncSubmittedRun: ...

        @overload
        def submit(
            self, agent: Agent[Input, Output], process_id: str, input: Input, **how: Unpack[SubmitOptions]
        ) -> _SyncSubmittedRun[Output]: ...
        @overload
        def submit(
            self, agent: Agent[None, Output], process_id: str, **how: Unpack[SubmitOptions]
        ) -> _SyncSubmittedRun[Output]: ...
        @overload
        def submit(
            self, agent: str, process_id: str, input: Any = None, **how: Unpack[SubmitOptions]
        ) -> _SyncSubmittedRun[Any]: ...
        def submit(self, agent: Any, process_id: str, input: Any = None, **how: Any) -> Any: ...


if TYPE_CHECKING:

    class _SyncPool(SyncProxy):
        _target = cast(ProcessPool, None)
        open_count: int

        process = blocking(_target.process)
        release = blocking(_target.release)
        close = blocking(_target.close)

    class _SyncSharedProcess(SyncProxy):
        _target = cast(SharedProcess, None)
        process_id: str
        state: State

        read = blocking(_target.read)
        append = blocking(_target.append)
        record = blocking(_target.record)
        update = blocking(_target.update)
        update_many = blocking(_target.update_many)
        change = blocking(_target.change)
        delete = blocking(_target.delete)
        patch = blocking(_target.patch)
        clear = blocking(_target.clear)
        say = blocking(_target.say)
        attach = blocking(_target.attach)
        read_attachment = blocking(_target.read_attachment)
        detach = blocking(_target.detach)

    class _SyncSubmittedRun(SyncProxy, Generic[OutputT]):
        _target = cast(SubmittedRun, None)
        id: str

        def result(self, timeout: float | None = None) -> OutputT: ...

        status = blocking(_target.status)
        cancel = blocking(_target.cancel)


def _begun(work: Any, target: Any) -> Any:
    return work(target) if callable(work) else work


def _never_awaited(work: Any) -> None:
    """Close a coroutine that did not begin, because nobody awaits it any more."""
    if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()


def _not_started(make: object) -> NoReturn:
    raise HandleClosed("the node was not started", hint="with SyncNode.connect() as node: ...")


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name="seekpoint-sync", daemon=True)
        self.calls = LoopCalls(self._loop, self._thread)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop):  # leaving it cancels what still runs
            while not self._is_ended:
                with suppress(SystemExit, KeyboardInterrupt):  # in a task of its own: who awaits it gets it as well
                    self._loop.run_forever()

    def end(self) -> None:
        """End the loop and its thread. Calls that still run are cancelled, and raise ``HandleClosed``."""
        if not self.calls.is_gone:
            self.calls.refuse(closed)
            self._is_ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LEAVE_S)
