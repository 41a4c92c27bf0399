"""Handle the signals that stop a service, SIGTERM and SIGINT (Ctrl-C), and end a program whose threads still work."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from seekpoint.producers.durable.failures.program_exits import is_stop


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


def run_past_exits(main: Coroutine[Any, Any, None], on_exit: Callable[[BaseException], object]) -> None:
    """Run ``main`` in an event loop, which is entered again after ``sys.exit()`` in a task of somebody's code.

    ``on_exit`` receives what was raised. What a signal handler raises ends the program.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as exc:
                if task.done() or is_stop(exc, task):
                    raise
                on_exit(exc)


def exit_now() -> NoReturn:
    """End the program while calls still run. A normal exit would wait for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
