"""A plain thread's way to a process: what it asks for is done in one task of the event loop, one thing after the other.

In one task, because the calls of a process are counted in the order of the task that makes them. No logic of a process
is here: names are looked up on the object itself, and what it gives is awaited.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from seekpoint.producers.durable.replay.scopes import CURRENT
from seekpoint.schemas.errors import HandleClosed, Refused

if TYPE_CHECKING:
    from uuid import UUID

    from seekpoint.producers.durable.call_results import GateAnswer, Turn
    from seekpoint.producers.durable.content.invocation import Invocation
    from seekpoint.producers.durable.steps.retries import Retry
    from seekpoint.schemas.state.process_state import State

__all__ = ["SyncProcess", "SyncProxy", "ThreadBridge", "bridge", "in_own_thread"]

T = TypeVar("T")

_UNSET: Final = object()
LEAVE_S = 30.0
"""How long an interrupted thread waits until what it asked for is really over."""


def waited(answer: Future[T], begin: Callable[[Future[T]], None], call_off: Callable[[Future[T]], None]) -> T:
    """Begin what gives the ``answer``, and wait for it. An interrupt (Ctrl-C), at whatever moment, calls it off."""
    try:
        begin(answer)
        return answer.result()
    except BaseException:
        leave(answer, call_off)
        raise


def leave(answer: Future[T], call_off: Callable[[Future[T]], None]) -> None:
    """If it still runs, call it off and wait until it is over: its last entries are written by then."""
    if not answer.done():
        with suppress(BaseException):  # what interrupted is told; that the loop has ended meanwhile is not news
            call_off(answer)
            wait([answer], LEAVE_S)


def is_silent(thread: threading.Thread) -> bool:
    """Whether nothing asked of it is answered any more: it has ended, as in a fork, or the interpreter is about to."""
    return not thread.is_alive() or sys.is_finalizing()


def closed() -> HandleClosed:
    """What is asked of an event loop that is over is answered with."""
    return HandleClosed("the node was closed", hint="use a node that is open: a fork needs one of its own")


class _ThreadCall:
    """One thing that is asked for."""

    __slots__ = ("answer", "context", "is_called_off", "make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.context = copy_context()
        self.answer: Future[Any] = Future()
        self.is_called_off = False


class ThreadBridge:
    """Made in the task that is to do them, which then awaits ``serve``; ``ask`` and ``end`` are the thread's.

    ``cancelled``: what the thread is told when the task is cancelled.
    """

    def __init__(self, cancelled: Callable[[], BaseException] = asyncio.CancelledError) -> None:
        self._cancelled = cancelled
        self._loop = asyncio.get_running_loop()
        self._server = threading.current_thread()
        self._task = asyncio.current_task()
        self._asked: deque[_ThreadCall | None] = deque()
        self._more = asyncio.Event()
        self._closing = threading.Lock()
        self._now: _ThreadCall | None = None
        self._gone: BaseException | None = None
        self._thread: int | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    # --- in the task
    async def serve(self) -> Any:
        """Do what is asked until the thread ends: what it ended with."""
        try:
            while (errand := await self._next()) is not None:
                if not errand.is_called_off:
                    await self._do(errand)
        except asyncio.CancelledError:
            self._close(self._cancelled())
            raise
        finally:
            self._close(HandleClosed("the process was let go", hint="open it again, or run the agent again"))
        if self._error is not None:
            raise self._error
        return await self._result if inspect.isawaitable(self._result) else self._result

    async def _next(self) -> _ThreadCall | None:
        while not self._asked:
            self._more.clear()
            await self._more.wait()
        return self._asked.popleft()

    async def _do(self, errand: _ThreadCall) -> None:
        self._now = errand
        _adopt(errand.context)
        try:
            found = errand.make()
            is_awaited = inspect.isawaitable(found) and not hasattr(found, "__aenter__")
            errand.answer.set_result(await found if is_awaited else found)
        except asyncio.CancelledError as exc:
            errand.answer.set_exception(exc if errand.is_called_off else self._cancelled())
            if self._is_over(errand):
                raise
        except BaseException as exc:  # sys.exit() too is for the thread, not for the loop: it waits for whatever it is
            errand.answer.set_exception(exc)
        finally:
            self._now = None
            if errand.is_called_off and self._task is not None:  # also where its code went on, as if it were not
                self._task.uncancel()

    def _is_over(self, errand: _ThreadCall) -> bool:
        """Whether more than this errand was called off."""
        return not errand.is_called_off or (self._task is not None and self._task.cancelling() > 1)

    def _close(self, gone: BaseException) -> None:
        with self._closing:  # what is asked later is refused: nobody waits for ever
            self._gone = self._gone or gone
        for left in self._asked:
            if left is not None and not left.answer.done():
                left.answer.set_exception(self._gone)
        self._asked.clear()

    def _call_off(self, errand: _ThreadCall) -> None:
        errand.is_called_off = True
        if self._now is errand and self._task is not None:
            self._task.cancel()
        elif not errand.answer.done():
            errand.answer.set_exception(asyncio.CancelledError())

    # --- in the thread
    def ask(self, make: Callable[[], Any]) -> Any:
        """What ``make()`` gives in the task, awaited if it can be; waits for it. The first thread that asks is the one.

        Raises what it raises; ``Refused`` in another thread: its calls would have no order. Interrupted (Ctrl-C), what
        was asked for is called off first.
        """
        me = threading.get_ident()
        self._thread = self._thread or me
        if me != self._thread:
            hint = "make the calls one after the other, or write the agent as async def and use asyncio.gather"
            raise Refused("a synchronous process is one thread's: calls of several would have no order", hint=hint)
        errand = _ThreadCall(make)
        return waited(errand.answer, lambda _: self._post(errand), lambda _: self._wake(self._call_off, errand))

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        """Nothing more is asked: ``serve`` gives ``result``, or raises ``error``."""
        self._result, self._error = result, error
        with suppress(HandleClosed):
            self._post(None)

    def _post(self, errand: _ThreadCall | None) -> None:
        with self._closing:
            if self._gone is None:
                self._asked.append(errand)
            elif errand is not None:
                errand.answer.set_exception(self._gone)
        self._wake(self._more.set)

    def _wake(self, call: Callable[..., None], *arguments: Any) -> None:
        if is_silent(self._server):
            raise closed()
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError as exc:
            raise closed() from exc


def _adopt(context: Context) -> None:
    """What the thread has set is what bodies see, as in async code; which call they belong to is the task's to know."""
    for variable, value in context.items():
        if variable is not CURRENT and variable.get(_UNSET) is not value:
            variable.set(value)


def bridge(ask: Callable[[Callable[[], Any]], Any], found: Any) -> Any:
    """``found``, as a thread can use it: context managers, iterators and objects of the event loop are wrapped."""
    if hasattr(found, "__aenter__") and hasattr(found, "__aexit__"):
        return _context(ask, found)
    if hasattr(found, "__aiter__"):
        return _iterated(ask, found)
    if inspect.iscoroutinefunction(found):  # what wrap_model and wrap_tool make
        return wraps(found)(lambda *arguments, **options: bridge(ask, ask(partial(found, *arguments, **options))))
    return _bridged(ask, found)


def _bridged(ask: Callable[[Callable[[], Any]], Any], found: Any) -> Any:
    is_ours = type(found).__module__.startswith("seekpoint.")
    return SyncProxy(ask, found) if is_ours and _has_coroutines(type(found)) else found


def _has_coroutines(kind: type) -> bool:
    return any(_is_awaited(getattr(kind, name, None)) for name in dir(kind) if name[0] != "_")


def _is_awaited(call: Any) -> bool:
    """Whether it is async, or says that it gives what is awaited: a call that takes its place before it is."""
    told = str(getattr(call, "__annotations__", {}).get("return", ""))
    return inspect.iscoroutinefunction(call) or told.startswith("Coroutine")


@contextmanager
def _context(ask: Callable[[Callable[[], Any]], Any], manager: Any) -> Iterator[Any]:
    entered = bridge(ask, ask(manager.__aenter__))
    try:
        yield entered
    except BaseException as exc:
        told = exc if isinstance(exc, Exception) else asyncio.CancelledError()
        try:
            swallowed = ask(partial(manager.__aexit__, type(told), told, told.__traceback__))
        except asyncio.CancelledError:
            raise exc from None
        if not swallowed:
            raise
    else:
        ask(partial(manager.__aexit__, None, None, None))


def _iterated(ask: Callable[[Callable[[], Any]], Any], source: Any) -> Iterator[Any]:
    items, ended = source.__aiter__(), object()

    async def following() -> Any:
        return await anext(items, ended)

    try:
        while (item := ask(following)) is not ended:
            yield bridge(ask, item)
    finally:
        if hasattr(items, "aclose"):
            ask(items.aclose)


class SyncProxy:
    """An object of the event loop, for a thread: the same names, and each call returns once it is done."""

    def __init__(self, ask: Callable[[Callable[[], Any]], Any], target: Any) -> None:
        self._ask = ask
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._ask(lambda: _Value(getattr(self._target, name))).value
        return partial(self._call, found) if inspect.isroutine(found) else _bridged(self._ask, found)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self._ask(lambda: setattr(self._target, name, value))

    def _call(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return bridge(self._ask, self._ask(partial(call, *arguments, **options)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._target!r}>"


class _Value:
    """A value that is handed over as it is, awaitable or not."""

    def __init__(self, value: Any) -> None:
        self.value = value


class SyncProcess(SyncProxy):
    """A ``Process`` for code that is not async: the same calls, without ``await``; ``with`` and ``for`` instead of
    ``async with`` and ``async for``. One thread's: bodies of steps that are plain functions run in others, and make no
    calls of their own on it (``Refused``)."""

    if TYPE_CHECKING:
        process_id: str
        state: State
        is_open: bool

        @overload
        def step(
            self, name: str, call: Callable[..., Awaitable[T]], *arguments: Any, key: str | None = None,
            retry: Retry | None = None, timeout: float | timedelta | None = None, **options: Any,
        ) -> T: ...  # fmt: skip
        @overload
        def step(
            self, name: str, call: Callable[..., T], *arguments: Any, key: str | None = None,
            retry: Retry | None = None, timeout: float | timedelta | None = None, **options: Any,
        ) -> T: ...  # fmt: skip
        def step(self, name: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any: ...
        def turns(self) -> Iterator[Turn]: ...
        def invocation(self, trigger: str, payload: Any = None) -> AbstractContextManager[Invocation]: ...
        def gate(
            self, name: str, *, timeout: float | timedelta | None = None, prompt: Any = None, key: str | None = None
        ) -> GateAnswer: ...
        def sleep(self, span: float | timedelta, *, key: str | None = None) -> None: ...
        def now(self) -> datetime: ...
        def uuid(self) -> UUID: ...
        def random(self) -> float: ...


def in_own_thread(run: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
    """An agent's plain ``def run(process, input)`` as the coroutine that ``node.run`` awaits.

    It runs in a thread of its own with a ``SyncProcess``. Where the run is cancelled its next call raises
    ``CancelledError``; a thread that makes none runs on, unheard.
    """

    @wraps(run)
    async def running(process: Any, input: Any) -> Any:  # the word users know
        errands = ThreadBridge()

        def work() -> None:
            try:
                result = run(SyncProcess(errands.ask, process), input)
            except BaseException as exc:
                errands.end(error=exc)
            else:
                errands.end(result)

        name = f"seekpoint-agent {process.process_id}"
        threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
        return await errands.serve()

    return running
