"""A process in code that is not async: each call is a task of the event loop, and the thread that makes it waits.

No call is written out a second time: a proxy looks names up on the async object.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from seekpoint.producers.process import Process, durable_side
from seekpoint.schemas.errors import HandleClosed, Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import timedelta
    from typing import Concatenate, ParamSpec, TypeVar, cast, overload

    from seekpoint.consumers import Report
    from seekpoint.producers.durable.call_results import GateAnswer, ReceivedSignal
    from seekpoint.producers.durable.decisions.stream_signatures import BlockingStreamCall
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.durable.steps.call_signatures import (
        BlockingDecideCall,
        BlockingEffectCall,
        BlockingStepCall,
    )
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import MailItem, State

    P = ParamSpec("P")
    T = TypeVar("T")

    # The type of a call without ``await``: a proxy looks the call up when it is made.
    @overload
    def blocking(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def blocking(
        call: Callable[P, AbstractAsyncContextManager[Process]],
    ) -> Callable[Concatenate[Any, P], AbstractContextManager[SyncProcess]]: ...
    @overload
    def blocking(
        call: Callable[P, AbstractAsyncContextManager[T]],
    ) -> Callable[Concatenate[Any, P], AbstractContextManager[T]]: ...
    @overload
    def blocking(call: Callable[P, AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]: ...
    def blocking(call: Any) -> Any: ...


__all__ = ["LEAVE_S", "LoopCalls", "SyncProcess", "SyncProxy", "closed", "run_in_thread"]

Calls: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Calls a function in the event loop, awaits what it returns, and returns or raises the outcome."""

LEAVE_S = 30.0
"""How long an interrupted thread waits until its cancelled call is over."""


class LoopCalls:
    """The calls that plain threads make in ``loop``, which runs in ``loop_thread``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, loop_thread: threading.Thread) -> None:
        self._loop = loop
        self._loop_thread = loop_thread
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._refusal: Callable[[], BaseException] | None = None
        self._refusing = threading.Lock()

    @property
    def is_gone(self) -> bool:
        """Whether no call is answered any more: in a fork, or as the interpreter ends."""
        return not self._loop_thread.is_alive() or self._loop.is_closed() or sys.is_finalizing()

    def __call__(self, make: Callable[[], Any]) -> Any:
        """Call ``make()`` in a task of the loop, await what it returns, and return or raise the outcome.

        An interrupt (Ctrl-C) cancels the task, and is raised once that is over, after ``LEAVE_S`` at the latest.
        """
        over = threading.Event()
        asked = self._submit(make, over)
        try:
            result, error = asked.result()
        except CancelledError:
            raise (self._refusal or asyncio.CancelledError)() from None
        except BaseException:
            asked.cancel()
            over.wait(LEAVE_S)
            raise
        if error is not None:
            raise error
        return result

    @property
    def is_in_loop(self) -> bool:
        """Whether the caller runs in the loop itself."""
        return threading.current_thread() is self._loop_thread

    async def awaited(self, make: Callable[[], Any]) -> Any:
        """Do what a call does, for a caller in another event loop, which goes on meanwhile."""
        asked = self._submit(make, threading.Event())
        try:
            result, error = await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            if self._refusal is not None and asked.cancelled():
                raise self._refusal() from None
            raise
        if error is not None:
            raise error
        return result

    def refuse(self, refusal: Callable[[], BaseException]) -> None:
        """Raise ``refusal()`` to every later caller, and to the callers whose tasks are cancelled."""
        with self._refusing:
            self._refusal = refusal

    async def cancel(self) -> None:
        """Cancel the tasks of the calls; return once they are over."""
        tasks = [task for task in self._tasks if task is not None and task.cancel()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _submit(self, make: Callable[[], Any], over: threading.Event) -> Future[tuple[Any, BaseException | None]]:
        if threading.current_thread() is self._loop_thread:
            hint = "in async code, await the calls of process.node; or make the function a plain one"
            raise Refused("a call of a SyncNode in its own event loop would wait for itself", hint=hint)
        if self.is_gone:
            raise closed()
        with self._refusing:  # a call submitted after the end of the loop would never return
            if self._refusal is not None:
                raise self._refusal()
            return asyncio.run_coroutine_threadsafe(self._outcome(make, over), self._loop)

    async def _outcome(self, make: Callable[[], Any], over: threading.Event) -> tuple[Any, BaseException | None]:
        self._tasks.add(task := asyncio.current_task())
        try:
            if self._refusal is not None:  # since the call was submitted
                raise asyncio.CancelledError
            found = make()
            return await found if inspect.isawaitable(found) and not hasattr(found, "__aenter__") else found, None
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # sys.exit() ends the thread that called, not the event loop
            return None, exc
        finally:
            self._tasks.discard(task)
            over.set()


def closed() -> HandleClosed:
    """Return the error of a call whose event loop has ended."""
    return HandleClosed("the node was closed", hint="use a node that is open: a fork needs one of its own")


class SyncProxy:
    """An object of the event loop for plain threads: the same names, and each call returns once it is done."""

    def __init__(self, calls: Calls, target: Any) -> None:
        self._calls = calls
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        read = partial(getattr, self._target, name)
        is_method = inspect.isroutine(getattr(type(self._target), name, None))
        found = read() if is_method else self._calls(read)
        return partial(self._call, found) if inspect.isroutine(found) else _proxied(self._calls, found)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self._calls(partial(setattr, self._target, name, value))

    def _call(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        found = self._calls(partial(call, *arguments, **options))
        if hasattr(found, "__aenter__"):
            return _entered(self._calls, found)
        if hasattr(found, "__aiter__"):
            return _iterated(self._calls, found)
        if inspect.iscoroutinefunction(found):  # what wrap_model and wrap_tool make
            return wraps(found)(partial(self._call, found))
        return _proxied(self._calls, found)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._target!r}>"


def _proxied(calls: Calls, found: Any) -> Any:
    if isinstance(found, Process):
        return SyncProcess(calls, found)
    return SyncProxy(calls, found) if _has_coroutines(found.__class__) else found


@cache
def _has_coroutines(kind: type) -> bool:
    methods = [getattr(kind, name) for name in dir(kind) if name[0] != "_"]
    return kind.__module__.startswith("seekpoint.") and any(
        inspect.iscoroutinefunction(one) or str(getattr(one, "__annotations__", {}).get("return")).startswith("Corout")
        for one in methods
    )


@contextmanager
def _entered(calls: Calls, manager: Any) -> Iterator[Any]:
    entered, program = _proxied(calls, calls(manager.__aenter__)), os.getpid()
    try:
        yield entered
    except BaseException as exc:
        # An interrupt is no failure of the process: it is released as it stands, as if its task was cancelled.
        error = exc if isinstance(exc, Exception) else asyncio.CancelledError()
        with suppress(asyncio.CancelledError, HandleClosed):  # the error that comes through here says more
            if calls(partial(manager.__aexit__, type(error), error, error.__traceback__)):
                return
        raise
    if program == os.getpid():  # a fork of it owns nothing
        calls(partial(manager.__aexit__, None, None, None))


def _iterated(calls: Calls, source: Any) -> Iterator[Any]:
    items, ended = source.__aiter__(), object()

    async def following() -> Any:
        return await anext(items, ended)

    try:
        while (item := calls(following)) is not ended:
            yield _proxied(calls, item)
    finally:
        if hasattr(items, "aclose"):
            calls(items.aclose)


class SyncProcess(SyncProxy):
    """A ``Process`` for code that is not async: the same calls, without ``await``; ``with`` and ``for`` instead of
    ``async with`` and ``async for``. One thread's: bodies of steps that are plain functions run in others, and make no
    calls of their own on it (``Refused``)."""

    def __init__(self, calls: Calls, process: Process) -> None:
        super().__init__(_in_one_thread(calls), process)
        calls(partial(durable_side(process).set_main_task, None))  # each call is a task, and all are the main code's

    if TYPE_CHECKING:
        _target = cast(Process, None)
        process_id: str
        state: State
        written: State
        limits: Limits
        report: Report
        is_open: bool

        step: BlockingStepCall
        tool: BlockingStepCall
        decide: BlockingDecideCall
        decide_stream: BlockingStreamCall
        effect: BlockingEffectCall
        turns = blocking(_target.turns)
        invocation = blocking(_target.invocation)
        update = blocking(_target.update)
        change = blocking(_target.change)
        record = blocking(_target.record)
        say = blocking(_target.say)
        flush = blocking(_target.flush)
        attach = blocking(_target.attach)
        read_attachment = blocking(_target.read_attachment)
        detach = blocking(_target.detach)
        sleep = blocking(_target.sleep)
        sleep_until = blocking(_target.sleep_until)
        now = blocking(_target.now)
        uuid = blocking(_target.uuid)
        random = blocking(_target.random)
        sample = blocking(_target.sample)

        @overload
        def receive(self, name: str | None = None, *, timeout_s: float | timedelta | None = None) -> MailItem: ...
        @overload
        def receive(
            self, name: str | None = None, *, type: type[T], timeout_s: float | timedelta | None = None
        ) -> ReceivedSignal[T]: ...
        @overload
        def receive(
            self, name: str | None = None, *, type: Any, timeout_s: float | timedelta | None = None
        ) -> ReceivedSignal: ...
        def receive(self, name: str | None = None, **how: Any) -> Any: ...
        @overload
        def gate(
            self, name: str, *, timeout: float | timedelta | None = None, prompt: Any = None, key: str | None = None
        ) -> GateAnswer: ...
        @overload
        def gate(
            self, name: str, *, type: type[T], timeout: float | timedelta | None = None, prompt: Any = None,
            key: str | None = None,
        ) -> GateAnswer[T]: ...  # fmt: skip
        @overload
        def gate(
            self, name: str, *, type: Any, timeout: float | timedelta | None = None, prompt: Any = None,
            key: str | None = None,
        ) -> GateAnswer: ...  # fmt: skip
        def gate(self, name: str, **how: Any) -> Any: ...


def _in_one_thread(calls: Calls) -> Calls:
    owner: int | None = None

    def called(make: Callable[[], Any]) -> Any:
        nonlocal owner
        owner = owner or threading.get_ident()
        if owner != threading.get_ident():
            hint = "make the calls one after the other, or write the agent as async def and use asyncio.gather"
            raise Refused("a synchronous process is one thread's: calls of several would have no order", hint=hint)
        return calls(make)

    return called


async def run_in_thread(agent: Agent, process: Process, input: Any) -> Any:  # the word users know
    """Run an agent's plain function in a thread, with a ``SyncProcess`` of ``process``; return its result.

    Cancelled, the thread's call is cancelled too, and its next one raises ``CancelledError``. A thread that makes no
    more calls runs on, and its result is lost.
    """
    loop, over, outcome = asyncio.get_running_loop(), asyncio.Event(), Future[Any]()
    calls = LoopCalls(loop, threading.current_thread())
    from seekpoint.producers.durable.failures.program_exits import as_failure

    def work() -> None:
        try:
            outcome.set_result(agent.run(SyncProcess(calls, process), input))
        except (SystemExit, KeyboardInterrupt) as exc:  # never of a signal: that strikes the main thread
            outcome.set_exception(as_failure(exc, "the code"))
        except BaseException as exc:
            outcome.set_exception(exc)
        with suppress(RuntimeError):  # the event loop was closed
            loop.call_soon_threadsafe(over.set)

    name = f"seekpoint-agent {process.process_id}"
    threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
    try:
        await over.wait()
    finally:
        calls.refuse(asyncio.CancelledError)
        await calls.cancel()
    found = outcome.result()
    return await found if inspect.isawaitable(found) else found
