"""What a test that hangs is stopped by, and says."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import pytest_timeout

__all__ = ["Timeouts", "interrupts_are_heard", "stacks"]

AGAIN_S = 30.0
"""Code that swallows the failure is told again after so long."""


class Timeouts:
    """A plugin: fail a test that takes longer than its ``timeout``, with the stacks of all threads and tasks.

    Pytest-timeout reads the option and the marker. Its own timer ends with the first failure: then neither the
    teardown nor a second attempt has a limit. This one gives each of them the whole time anew. If the failure
    does not come through (the main thread stays in C code), the process prints its stacks and exits a little later;
    pytest-xdist then names the test.
    """

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # before pytest captures it
        self._timeout_s: float | None = None

    def close(self) -> None:
        """Let go of the error output."""
        os.close(self._stderr)

    def pytest_timeout_set_timer(self, settings: Any) -> bool:
        """Begin a test."""
        self._timeout_s = settings.timeout
        self._arm()
        return True

    def pytest_timeout_cancel_timer(self) -> bool:
        """End it, or its limit: it failed, or a debugger holds it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Begin an attempt."""
        self._arm()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Begin to clear away, also after a failure."""
        self._arm()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """End the limit of the test."""
        self._timeout_s = None

    def _arm(self) -> None:
        if self._timeout_s is None or pytest_timeout.is_debugging():
            return
        signal.signal(signal.SIGALRM, self._fail)
        signal.setitimer(signal.ITIMER_REAL, self._timeout_s, AGAIN_S)
        faulthandler.dump_traceback_later(2 * self._timeout_s + AGAIN_S, exit=True, file=self._stderr)

    def _fail(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        pytest.fail(f"Timeout (>{self._timeout_s} s): the test hung here\n{stacks()}", pytrace=False)


def stacks() -> str:
    """Return the stacks of all threads and of all tasks that are not done, as text."""
    names = {each.ident: each.name for each in threading.enumerate()}
    threads = [
        f"--- thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    tasks = [each for each in gc.get_objects() if issubclass(type(each), asyncio.Task) and not each.done()]
    return "\n".join([*threads, *(f"--- task {each.get_name()}\n{''.join(_awaits(each))}" for each in tasks)])


def _awaits(task: asyncio.Task[Any]) -> Iterator[str]:
    """Where it waits, from its outermost call on. ``Task.get_stack`` knows that one only."""
    waits: Any = task.get_coro()
    while frame := getattr(waits, "cr_frame", None) or getattr(waits, "gi_frame", None):
        yield from traceback.format_stack(frame, limit=1)
        waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None)


@contextlib.contextmanager
def interrupts_are_heard() -> Iterator[None]:
    """Let SIGINT interrupt this process and those that it starts, also where it was ignored.

    A job that a script or ``nohup`` starts in the background ignores it, and so does everything that the job starts.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
