"""A projector as a real process: runs until it is killed, or dies, or stands still where a test wants it to.

Run: ``projector_program.py [--at POINT:N] [--stop]``; settings come from the environment. At the Nth passing of POINT
it kills itself, with ``--stop`` it stops itself (SIGSTOP). It prints the point before it obeys. Points:

    proposed    the states to save were read, nothing is begun. Once it goes on it rests, so that its client learns what
                became of the group; when it is over it prints ``ended``
    applied     the view has a batch, nobody noted it
    written     a transaction is open, its offsets are not sent
    sent        they are
    committed   the view was not told
    rebuilding  a view is half rebuilt
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from seekpoint.consumers.checkpoints.checkpoint_writer import Positions, Save
from seekpoint.consumers.kafka import kafka_transactions
from seekpoint.consumers.kafka.kafka_transactions import KafkaTransactions
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.schemas import Settings

_NAPS, _NAP_S = 30, 0.1
"""A rest of many heartbeats."""
_TRANSACTION_TIMEOUTS = {"transaction.timeout.ms": 3_000, "message.timeout.ms": 3_000}
"""Those of a projector that dies: its successor waits for them. Ten seconds teach no more."""


def arm(point: str, nth: int, how: signal.Signals) -> None:
    """Make the ``nth`` passing of ``point`` the last, or a long one."""
    seen = 0

    def pass_by() -> bool:
        nonlocal seen
        seen += 1
        if seen == nth:
            print(point, flush=True)
            os.kill(os.getpid(), how)
        return seen == nth

    if point == "applied":
        _after(RedisView, "write", pass_by)
    elif point == "rebuilding":
        _after(RedisView, "put", pass_by)
    elif point == "proposed":
        _rest_after_proposing(pass_by)
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


def _rest_after_proposing(pass_by: Callable[[], bool]) -> None:
    propose, commit = PartitionProjection.propose, KafkaTransactions.commit
    has_rested = False

    def proposed(self: PartitionProjection, **named: Any) -> Save | None:
        nonlocal has_rested
        save = propose(self, **named)
        if save is not None and pass_by():
            for _ in range(_NAPS):  # short ones: the clock of a long one runs while the program stands still
                time.sleep(_NAP_S)
            has_rested = True
        return save

    def committed(self: KafkaTransactions, saves: Sequence[Save], membership: object) -> Positions:
        try:
            return commit(self, saves, membership)
        finally:
            if has_rested:
                print("ended", flush=True)

    PartitionProjection.propose = proposed  # type: ignore[method-assign]
    KafkaTransactions.commit = committed  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--at")
    parser.add_argument("--stop", action="store_true")
    options = parser.parse_args()
    if options.at:
        kafka_transactions._GUARANTEED = {**kafka_transactions._GUARANTEED, **_TRANSACTION_TIMEOUTS}
        point, _, nth = options.at.partition(":")
        arm(point, int(nth), signal.SIGSTOP if options.stop else signal.SIGKILL)
    asyncio.run(Projector.connect(Settings.load()).run())


if __name__ == "__main__":
    main()
