"""Notice ``asyncio.wait_for``: it runs a coroutine in a task of its own up to Python 3.11, later in the caller's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any

_WAIT_FOR = asyncio.wait_for.__code__
_RELEASE_WAITER = getattr(asyncio.tasks, "_release_waiter", None)


def awaited_coroutine() -> Coroutine[Any, Any, Any] | None:
    """Return the coroutine that the innermost ``wait_for`` of the current task awaits in that task; None without one.

    It looks at the frames of the running code, so it costs a microsecond or a few.
    """
    task = asyncio.current_task()
    outermost = None if task is None else getattr(task.get_coro(), "cr_frame", None)
    frame = sys._getframe(1)
    while frame.f_code is not _WAIT_FOR:
        if frame is outermost or frame.f_back is None:  # an eager task begins above the frames of its creator
            return None
        frame = frame.f_back
    awaited = frame.f_locals.get(_WAIT_FOR.co_varnames[0])
    return awaited if asyncio.iscoroutine(awaited) else None


def is_started_by_wait_for(task: asyncio.Task[Any] | None) -> bool:
    """Return whether a ``wait_for`` of Python 3.11 waits for ``task``, which it started itself as a rule."""
    callbacks = getattr(task, "_callbacks", None) or ()
    return any(isinstance(call, partial) and call.func is _RELEASE_WAITER for call, _ in callbacks)
