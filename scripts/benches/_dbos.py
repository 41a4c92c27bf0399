"""DBOS with its SQLite database, for ``steps.py``: a workflow of steps.

As a program it prints what ``_rival_program.py`` says. DBOS leaves SQLite as it comes: a rollback journal, and each
commit synchronised with the disk (``synchronous=FULL``).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from _rival_program import STEPS, rival_program, seconds_at_once

__all__ = ["run_seconds", "step_ms"]


async def step_ms(path: Path, steps: int) -> list[float]:
    """Milliseconds of each step. ``ImportError`` where ``dbos`` is not installed."""
    taken: list[float] = []
    async with _workflow(path, steps, lambda: taken.append(time.perf_counter())) as run:
        await run("case")
    return [(late - early) * 1000 for early, late in pairwise(taken[50:])]


async def run_seconds(path: Path, runs: int) -> float:
    """Seconds of so many workflows of three steps, 50 at once."""
    async with _workflow(path, STEPS, lambda: None) as run:
        return await seconds_at_once(run, runs)


@asynccontextmanager
async def _workflow(path: Path, steps: int, at_step: Any) -> AsyncIterator[Any]:
    """Give a function that runs a workflow of so many steps, by its id."""
    dbos: Any = import_module("dbos")
    url = f"sqlite:///{path}"
    dbos.DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"})

    async def look_up(order: str) -> dict[str, Any]:
        at_step()
        return {"order": order, "found": True}

    step = dbos.DBOS.step()(look_up)

    async def steps_in_turn() -> dict[str, Any]:
        for index in range(steps):
            await step(f"order {index}")
        return {"done": True}

    workflow = dbos.DBOS.workflow()(steps_in_turn)
    dbos.DBOS.launch()
    try:

        async def run(name: str) -> None:
            with dbos.SetWorkflowID(name):
                await workflow()

        yield run
    finally:
        dbos.DBOS.destroy()


if __name__ == "__main__":
    sys.exit(asyncio.run(rival_program(step_ms, run_seconds)))
