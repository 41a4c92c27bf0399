"""What a test started and did not end: it would take time from the tests after it, or fail them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import traceback
from asyncio.base_events import BaseEventLoop
from collections.abc import Iterator
from weakref import WeakSet

import pytest

__all__ = ["nothing_left", "watch_loops"]

_GRACE_S = 20.0
"""How long threads and loops that were told to end may take on a busy machine."""
_LOOPS = WeakSet[asyncio.AbstractEventLoop]()


def watch_loops() -> None:
    """Remember each event loop that is made from now on."""
    init = BaseEventLoop.__init__

    def remembered(self: BaseEventLoop) -> None:
        init(self)
        _LOOPS.add(self)

    BaseEventLoop.__init__ = remembered  # type: ignore[method-assign, assignment]


@contextlib.contextmanager
def nothing_left(grace_s: float = _GRACE_S) -> Iterator[None]:
    """Fail, with their stacks, if threads run or event loops are open that were not there before.

    An open node has threads of its own, so it is found too.
    """
    threads, loops = set(threading.enumerate()), set(_LOOPS)
    yield
    deadline = time.monotonic() + grace_s
    while left := _left(threads, loops):
        if time.monotonic() > deadline:
            pytest.fail("the test ended and left\n" + "\n".join(left), pytrace=False)
        time.sleep(0.01)


def _left(threads: set[threading.Thread], loops: set[asyncio.AbstractEventLoop]) -> list[str]:
    left = [each for each in threading.enumerate() if each not in threads and not _is_runners(each)]
    opened = [each for each in list(_LOOPS) if each not in loops and not each.is_closed()]
    return [*map(_shown, left), *(f"--- an open event loop: {each!r}" for each in opened)]


def _is_runners(thread: threading.Thread) -> bool:
    """Whether the thread is that of pytest-xdist, which ``threading`` knows from its first log message on."""
    return isinstance(thread, threading._DummyThread) and "/execnet/" in _shown(thread)


def _shown(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return f"--- thread {thread.name}\n{''.join(traceback.format_stack(frame))}"
