"""What the programs of other systems share: their options, runs at once, and one line of JSON.

``python _langgraph.py steps FILE COUNT`` prints the milliseconds of each step, ``... runs FILE COUNT`` the seconds of
so many runs. They import nothing of Seekpoint, so an environment with only the other system can run them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from json import dumps
from pathlib import Path

__all__ = ["AT_ONCE", "STEPS", "rival_program", "seconds_at_once"]

AT_ONCE, STEPS = 50, 3


async def seconds_at_once(run: Callable[[str], Awaitable[object]], runs: int) -> float:
    """Seconds that so many runs take, 50 at once. 50 others before them are not counted: they warm up."""

    async def some(names: list[str]) -> float:
        left = iter(names)

        async def one_after_the_other() -> None:
            for name in left:
                await run(name)

        began = time.perf_counter()
        await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
        return time.perf_counter() - began

    await some([f"first-{index}" for index in range(AT_ONCE)])
    return await some([f"case-{index}" for index in range(runs)])


async def rival_program(
    step_ms: Callable[[Path, int], Awaitable[list[float]]], run_seconds: Callable[[Path, int], Awaitable[float]]
) -> int:
    """Do what the command line says; return the exit code."""
    what, file, count = sys.argv[1:]
    try:
        found = await (step_ms if what == "steps" else run_seconds)(Path(file), int(count))
    except ImportError as exc:
        print(dumps({"absent": exc.name}))
        return 0
    print(dumps({what: found}))
    return 0
