"""Threads of plain code: one that must end, and a main thread that is interrupted."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["interrupt_main", "interruptible", "main_waits", "outcome", "raised"]


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` on SIGINT meanwhile, also in tests that were started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raised(work: Callable[[], object]) -> type[BaseException] | None:
    """Return the class of what ``work()`` raises in this thread."""
    try:
        work()
    except BaseException as exc:
        return type(exc)
    return None


def outcome(work: Callable[[], object]) -> object:
    """What ``work()`` gave or raised, in a thread that must end."""
    ended: list[object] = []

    def working() -> None:
        try:
            ended.append(work())
        except BaseException as exc:
            ended.append(exc)

    thread = threading.Thread(target=working, daemon=True)
    thread.start()
    thread.join(60)
    assert ended, "it waits for ever"
    return ended[0]


def main_waits() -> bool:
    """Whether the main thread waits for an answer."""
    main = threading.main_thread().ident
    assert main is not None
    return sys._current_frames()[main].f_code is threading.Condition.wait.__code__


def interrupt_main(ready: threading.Event) -> threading.Thread:
    """Ctrl-C, once it is ``ready`` and the main thread waits. The thread that does it."""
    main = threading.main_thread().ident
    assert main is not None

    def strike() -> None:
        assert ready.wait(60)
        while threading.main_thread().is_alive() and not main_waits():
            time.sleep(0.01)
        waiting = sys._current_frames().get(main)
        # A signal that comes right before the thread blocks does not wake it: CPython looks for signals before that.
        while waiting is not None and sys._current_frames().get(main) is waiting:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.5)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    return thread
