"""How a service is told to stop: SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

__all__ = ["on_stop"]


def on_stop(tell: Callable[[], object]) -> None:
    """Call ``tell`` in the running loop at each SIGTERM and SIGINT from now on.

    Where a loop takes no signal handlers (Windows), the interpreter's own handler passes the word to the loop.
    """
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(each, tell)
        except NotImplementedError:
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(tell))
