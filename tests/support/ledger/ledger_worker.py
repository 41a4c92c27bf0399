"""A worker for the ledger's agent: ``python ledger_worker.py PORT``; settings come from the environment."""

from __future__ import annotations

import asyncio
import os
import signal

from ledger_agent import ask, run
from seekpoint.producers import Worker
from seekpoint.schemas import Settings

__all__: list[str] = []


async def main() -> None:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings.load(node_id=f"life-{os.environ['AGENT_LIFE']}")
    worker = Worker([run], settings, runs_max=int(os.environ["RUNS_MAX"]), grace_s=0.3, drain_s=1.0)
    telling = asyncio.create_task(tell_assignments(worker))
    try:
        await worker.run(stop)
    finally:
        telling.cancel()


async def tell_assignments(worker: Worker) -> None:
    """Tell the ledger which partitions the worker looks after, whenever it has got to know them."""
    told: frozenset[int] | None = None
    while True:
        if worker.assigned != told and worker.progress().is_caught_up:
            told = worker.assigned
            await ask("assigned", ",".join(map(str, sorted(told))))
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
