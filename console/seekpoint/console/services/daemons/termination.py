"""Handle the signals that stop a service, SIGTERM and SIGINT (Ctrl-C), and end a program whose threads still work."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

__all__ = ["exit_now", "on_stop"]


def on_stop(stop: Callable[[], object]) -> None:
    """Call ``stop`` in the running loop at each SIGTERM and SIGINT.

    If the loop cannot handle signals (Windows), a handler of the interpreter calls the loop.
    """
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(each, stop)
        except NotImplementedError:
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(stop))


def exit_now() -> NoReturn:
    """End the program while calls still run. A normal exit would wait for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
