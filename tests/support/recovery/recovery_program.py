"""A recovery worker as a real process. Dies where a test wants it to.

Run: ``recovery_program.py RECORD_FILE [--die POINT:N] [--without-agent]``; settings come from the environment. Lines of
the record: ``ready``, ``read`` and ``answered`` with the request's id, ``checkpointed``. Fail points (each at the Nth
request): ``before-answer`` (read, nothing produced), ``after-answer`` (acknowledged, not committed).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from seekpoint.consumers.kafka.faust_delivery import FaustDelivery
from seekpoint.consumers.recovery_service.answering import RequestAnswerer
from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.schemas import Settings


class Record:
    """What the worker did, one line each, in a file that outlives it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def line(self, what: str, **facts: Any) -> None:
        self._file.write(json.dumps({"what": what, **facts}) + "\n")


def arm(record: Record, point: str | None, nth: int) -> None:
    """Write down each request; die at the ``nth``."""
    find, send = RequestAnswerer.answer, RecoveryService._send
    seen = {"before-answer": 0, "after-answer": 0}

    def reached(here: str) -> None:
        seen[here] += 1
        if here == point and seen[here] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    async def answer_or_die(self: RequestAnswerer, request: Any) -> Any:
        record.line("read", id=request.id.hex())
        reached("before-answer")
        return await find(self, request)

    async def send_or_die(self: RecoveryService, answer: Any, partition: int) -> None:
        await send(self, answer, partition)
        record.line("answered", id=answer.id.hex())
        reached("after-answer")

    RequestAnswerer.answer = answer_or_die  # type: ignore[method-assign]
    RecoveryService._send = send_or_die  # type: ignore[method-assign]


async def work(record: Record) -> None:
    async def checkpoint(process_id: str) -> None:
        record.line("checkpointed", process_id=process_id)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with RecoveryService(Settings.load(), checkpoint=checkpoint, stall_max_s=8.0) as service:
        record.line("ready")
        await service.run(stop)
    record.line(
        "stopped",
        answered=service.figures.answered,
        failed=service.figures.failed,
        passed_over=service.delivery.passed_over,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("record", type=Path)
    parser.add_argument("--die")
    parser.add_argument("--without-agent", action="store_true")
    options = parser.parse_args()
    record = Record(options.record)
    point, _, nth = (options.die or ":0").partition(":")
    arm(record, point or None, int(nth))
    if options.without_agent:
        FaustDelivery._add_agent = lambda *_: None  # type: ignore[method-assign]
    asyncio.run(work(record))


if __name__ == "__main__":
    main()
