"""Tell the stop of a task or of the program from a failure of the code that it leaves. Pure.

``sys.exit()``, a ``KeyboardInterrupt`` that code raises, a closed generator and somebody else's task that was cancelled
leave code as exceptions that are no ``Exception``. Only a stop may pass through the event loop: the others are recorded
as failures, as a ``RuntimeError`` that says what was raised.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable
from functools import partial
from types import CodeType
from typing import Any, TypeVar

T = TypeVar("T")


async def contained(code: Awaitable[T], what: str) -> T:
    """Await ``code``; raise a failure of ``what`` for an error of it that is neither an ``Exception`` nor a stop."""
    task = asyncio.current_task()
    try:
        return await code
    except BaseException as exc:
        raise_failure(exc, task, what)
        raise


def raise_failure(error: BaseException, task: asyncio.Task[Any] | None, what: str) -> None:
    """Raise the failure of ``what`` if ``error``, which leaves it, is no ``Exception`` and no stop of ``task``."""
    if not (isinstance(error, Exception) or is_stop(error, task)):
        raise as_failure(error, what) from None


def as_failure(error: BaseException, what: str) -> RuntimeError:
    """Return the failure to record of ``what`` for an error that is no ``Exception``, with its traceback."""
    text = str(error)
    message = f"{what} raised {type(error).__name__}{': ' if text else ''}{text}"
    return RuntimeError(message).with_traceback(error.__traceback__)


def is_stop(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether ``error`` ends ``task``, in which the code began, or the program, and not only the code that it leaves.

    A stop is a cancellation that somebody asked ``task`` for, the close of a coroutine that ``task`` does not run any
    more, and what a signal handler raises.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or _current_task() is not task
    return isinstance(error, KeyboardInterrupt | SystemExit) and _is_from_signal(error)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs: the interpreter ends, or the loop was closed
        return None


def _is_from_signal(error: BaseException) -> bool:
    """Whether the handler of a signal raised ``error``: it does so in the main thread, wherever that is just then."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return True  # it leaves no frame, so code that raises the same is taken for Ctrl-C
    codes, trace = {_code_of(handler) for handler in handlers}, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    code = getattr(handler, "__code__", None) or getattr(getattr(handler, "__call__", None), "__code__", None)  # noqa: B004
    return code if isinstance(code, CodeType) else None
