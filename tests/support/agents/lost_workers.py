"""End workers as kill -9 does, in one interpreter."""

from __future__ import annotations

import asyncio

from seekpoint.producers import Worker
from seekpoint.producers.node import runtime_of

__all__ = ["vanish"]


async def vanish(worker: Worker, leaves_after_s: float = 0.0) -> None:
    """End a worker as kill -9 does: nothing is drained, nothing is released, it leaves its group later."""
    for task in [*worker._tasks, *(run.task for run in worker._runs._runs.values())]:
        task.cancel()
    for handle in runtime_of(worker.node).open_handles():
        handle.abandon()
    await asyncio.sleep(leaves_after_s)
    await worker.close()
