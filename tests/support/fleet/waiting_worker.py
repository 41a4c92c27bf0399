"""A worker that kills itself once at a chosen point between noticing something and acting on it.

``python waiting_worker.py FOLDER``: a file ``PROCESS_ID=POINT`` in the folder asks for the kill. The worker that gets
to the point renames the file and sends itself SIGKILL, so that the next one goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from seekpoint.producers import Worker
from seekpoint.producers.log_session import LogSession
from seekpoint.producers.opening import Opener
from seekpoint.producers.worker import process_runs
from seekpoint.producers.worker.partition_watch import PartitionWatch
from seekpoint.producers.worker.process_runs import ProcessRuns
from seekpoint.producers.worker.responsibility import Responsibility
from seekpoint.schemas import bodies as b
from waiting_agents import AGENTS, tick

__all__: list[str] = []

_ACTS = (b.TimerFired, b.GateResolved, b.Received, b.CancelAccepted, b.EffectSettled, b.ChildEnded)
_SOON_S = 0.05


def die_at(point: str, process_id: str) -> None:
    """Kill this program if a file asks for it."""
    asked = Path(sys.argv[1]) / f"{process_id}={point}"
    try:
        asked.rename(asked.with_name(f"{process_id}.killed-{os.getpid()}"))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def install() -> None:
    """Put the points into the worker's own calls."""
    enqueue, begin, send_claim = Responsibility._enqueue, ProcessRuns.begin, Opener._send_claim
    module: Any = process_runs
    run_opened, push = module.run_opened, LogSession._push

    def noticed(self: Responsibility, process_id: str, *arguments: Any) -> None:
        die_at("noticed", process_id)
        enqueue(self, process_id, *arguments)

    def begins(self: ProcessRuns, ready: Any) -> None:
        die_at("begins", ready.process_id)
        begin(self, ready)

    async def claimed(self: Opener, request: Any, *arguments: Any) -> Any:
        sent = await send_claim(self, request, *arguments)
        die_at("claimed", request.process_id)
        return sent

    async def opened(process: Any, *arguments: Any, **options: Any) -> Any:
        die_at("opened", process.process_id)
        return await run_opened(process, *arguments, **options)

    def pushes(self: LogSession, body: b.Body, future: Any) -> int:
        if not isinstance(body, _ACTS):
            return push(self, body, future)
        die_at("writes", self.process_id)
        seq = push(self, body, future)
        if future is not None:
            future.add_done_callback(lambda _: die_at("written", self.process_id))
        else:
            asyncio.get_running_loop().call_later(_SOON_S, die_at, "written", self.process_id)
        return seq

    changed: Any = [
        (Responsibility, "_enqueue", noticed), (ProcessRuns, "begin", begins), (Opener, "_send_claim", claimed),
        (module, "run_opened", opened), (LogSession, "_push", pushes),
    ]  # fmt: skip
    for owner, name, call in changed:
        setattr(owner, name, call)


def overlook(prefix: str) -> None:
    """Let this worker overlook the moments of the processes whose ids begin so."""
    due: Any = PartitionWatch.due

    def sees(self: PartitionWatch, now_us: int) -> list[str]:
        return [one for one in due(self, now_us) if not one.startswith(prefix)]

    watch: Any = PartitionWatch
    watch.due = sees


class DyingTable:
    """The table of schedules: its worker dies before or after it notes what it has submitted."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.submitted = ""
        """The newest run that was submitted."""
        self.get = table.get

    async def set_text(self, *arguments: Any) -> Any:
        """Set the value."""
        die_at("notes", self.submitted)
        version = await self._table.set_text(*arguments)
        die_at("noted", self.submitted)
        return version


def hasten(worker: Worker, began_at: float, speed: float) -> None:
    """Let the worker's schedules go by a clock that is so many times as fast, and let the worker die between."""
    scheduler = worker._scheduler
    submit, table = scheduler._submit, DyingTable(scheduler._table)

    async def submits(submission: Any) -> None:
        table.submitted = submission.process_id
        die_at("submits", submission.process_id)
        await submit(submission)
        die_at("submitted", submission.process_id)

    changed: Any = scheduler
    changed._submit, changed._table = submits, table
    changed._now_us = lambda: int((began_at + (time.time() - began_at) * speed) * 1e6)


async def main() -> None:
    """Work until SIGTERM."""
    install()
    if (prefix := os.environ.get("FLEET_BLIND")) is not None:
        overlook(prefix)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clock = os.environ.get("FLEET_CLOCK")
    worker = Worker(AGENTS if clock is None else [*AGENTS, tick], grace_s=0.3, drain_s=1.0)
    if clock is not None:
        hasten(worker, *map(float, clock.split()))
    await worker.run(stop)


if __name__ == "__main__":
    asyncio.run(main())
