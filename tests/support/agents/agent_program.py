"""An agent as a real process: opens, appends numbers, writes down what it was told. Dies where a test wants it to.

Run: ``agent_program.py PROCESS_ID RECORD_FILE [--die POINT:N] [--take-over] [--count N] [--pause S]``; settings come
from the environment. A line of the record is JSON: opened, acknowledged, error, done. Fail points (each at the Nth
append): ``before-send``, ``after-send`` (in the client's hands, no acknowledgement yet), ``after-ack`` (acknowledged,
the agent not told).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seekpoint.producers import Node
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.kafka_writer import KafkaAppender
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import SeekpointError


class Record:
    """What the agent was told, one line each, in a file that outlives it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def line(self, what: str, **facts: Any) -> None:
        self._file.write(json.dumps({"what": what, "at": time.monotonic(), **facts}) + "\n")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, nth: int) -> None:
    """Make the ``nth`` owner's append die at ``point``."""
    seen = 0

    def counted() -> bool:
        nonlocal seen
        seen += 1
        return seen == nth

    def die_if() -> None:
        if counted():
            die()

    if point == "before-send":
        _around(Outbox, "push", before=die_if)
    elif point == "after-send":
        original = KafkaAppender.send

        def send(self: KafkaAppender, records: Any) -> int:
            taken = original(self, records)
            if any(type(record.token).__name__ == "Pending" for record in records) and counted():
                time.sleep(float(os.environ.get("AGENT_WIRE_S", "0")))
                die()
            return taken

        KafkaAppender.send = send  # type: ignore[method-assign]
    elif point == "after-ack":
        _around(Handle, "acknowledge", before=die_if)
    else:
        raise SystemExit(f"no fail point is called {point}")


def _around(owner: type, name: str, before: Callable[[], object]) -> None:
    original = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any) -> Any:
        before()
        return original(self, *arguments)

    setattr(owner, name, wrapped)


async def work(options: argparse.Namespace, record: Record) -> None:
    async with Node.connect(Settings.load()) as node:
        process = await node.open(options.process_id, take_over=options.take_over)
        record.line("opened", epoch=process.state.epoch, seq=process.state.seq, hash=process.state.hash)
        try:
            for number in range(options.count):
                value = f"{os.getpid()}-{number}"
                record.line("sending", value=value)
                done = await process.record("work", value)
                record.line("acknowledged", value=value, seq=done.seq, offset=done.offset)
                await asyncio.sleep(options.pause)
            await process.release()
            record.line("done")
        except SeekpointError as exc:
            record.line("error", error=type(exc).__name__, facts={key: str(fact) for key, fact in exc.facts.items()})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("process_id")
    parser.add_argument("record", type=Path)
    parser.add_argument("--die")
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    if options.die:
        point, _, nth = options.die.partition(":")
        arm(point, int(nth))
    asyncio.run(work(options, Record(options.record)))


if __name__ == "__main__":
    main()
