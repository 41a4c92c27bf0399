"""A projector as a real process: runs until it is killed, or dies, or stands still where a test wants it to.

Run: ``projector_program.py [--at POINT:N] [--stop]``; settings come from the environment. At the Nth passing of POINT
it kills itself, with ``--stop`` it stops itself (SIGSTOP). Points: ``applied`` (the view has a batch, nobody noted it),
``written`` (a transaction is open, its offsets are not sent), ``sent`` (they are), ``committed`` (the view was not
told), ``rebuilding`` (a view is half rebuilt). It prints the point before it obeys.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from seekpoint.consumers.kafka_transactions import KafkaTransactions
from seekpoint.consumers.projector import Projector
from seekpoint.consumers.redis_view import RedisView
from seekpoint.schemas import Settings


def arm(point: str, nth: int, how: signal.Signals) -> None:
    """Make the ``nth`` passing of ``point`` the last, or a long one."""
    seen = 0

    def pass_by() -> None:
        nonlocal seen
        seen += 1
        if seen == nth:
            print(point, flush=True)
            os.kill(os.getpid(), how)

    if point == "applied":
        _after(RedisView, "write", pass_by)
    elif point == "rebuilding":
        _after(RedisView, "put", pass_by)
    elif point == "written":
        _after(KafkaTransactions, "write", pass_by)
    elif point == "sent":
        _after(KafkaTransactions, "send_offsets", pass_by)
    elif point == "committed":
        _after(KafkaTransactions, "commit", pass_by)
    else:
        raise SystemExit(f"no fail point is called {point}")


def _after(owner: type, name: str, then: Callable[[], object]) -> None:
    original = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        answer = original(self, *arguments, **named)
        then()
        return answer

    setattr(owner, name, wrapped)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--at")
    parser.add_argument("--stop", action="store_true")
    options = parser.parse_args()
    if options.at:
        point, _, nth = options.at.partition(":")
        arm(point, int(nth), signal.SIGSTOP if options.stop else signal.SIGKILL)
    asyncio.run(Projector.connect(Settings.load()).run())


if __name__ == "__main__":
    main()
