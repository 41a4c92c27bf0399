"""Durable steps on the embedded log, beside LangGraph and DBOS on SQLite: the part ``--log sqlite`` of ``steps.py``.

All three files lie in one folder, each commit is synchronised with the disk, and the rounds take turns, so that all
see the same disk. The others run in programs of their own, by the Python of ``--rivals``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from json import loads
from pathlib import Path
from typing import Any

from _rival_program import STEPS, seconds_at_once
from _table import Table, p50, p99, progress
from seekpoint.producers import Node, Process, agent

__all__ = ["measure_files"]

SYSTEMS = {"LangGraph, SQLite saver": "_langgraph.py", "DBOS, SQLite": "_dbos.py"}
SERIAL, RUNS, ROUNDS = 500, 300, 5
STEP_MOST, RUNS_LEAST = 0.5, 3.0
"""The bars, as multiples of the better one of the others."""
_INSTALL = "python -m venv V; V/bin/pip install langgraph langgraph-checkpoint-sqlite dbos; then --rivals V/bin/python"


async def measure_files(table: Table, rivals: str, folder: str | None, only: str | None) -> None:
    """Fill the table."""
    for what, measure in {"serial": _serial, "runs": _runs}.items():
        if only in (None, what):
            with tempfile.TemporaryDirectory(prefix="seekpoint-bench-", dir=folder) as made:
                await measure(table, rivals, Path(made))


async def _serial(table: Table, rivals: str, folder: Path) -> None:
    """One step after the other."""
    ours: list[float] = []
    theirs: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        progress(f"steps, round {number + 1}/{ROUNDS}")
        ours += await _step_ms(folder / f"ours-{number}.db", SERIAL)
        for name, taken in _rivals(rivals, folder, number, "steps", SERIAL).items():
            theirs.setdefault(name, []).extend(taken)
    table.row(what="step, serial, embedded log, fsync", p50_ms=p50(ours), p99_ms=p99(ours))
    for name, taken in theirs.items():
        table.row(what=f"{name}, step", p50_ms=p50(taken), p99_ms=p99(taken), times_ours=p50(taken) / p50(ours))
    if len(theirs) == len(SYSTEMS):
        best = min(map(p50, theirs.values()))
        table.at_most("durable step in a file, p50, times the better other one", bar=STEP_MOST, value=p50(ours) / best)


async def _runs(table: Table, rivals: str, folder: Path) -> None:
    """Runs of three steps, 50 at once."""
    ours: list[float] = []
    theirs: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        progress(f"runs, round {number + 1}/{ROUNDS}")
        ours.append(RUNS / await _run_seconds(folder / f"ours-{number}.db", RUNS))
        for name, seconds in _rivals(rivals, folder, number, "runs", RUNS).items():
            theirs.setdefault(name, []).append(RUNS / seconds)
    table.row(what=f"{RUNS} runs x {STEPS} steps, 50 at once, embedded log, fsync", runs_per_s=p50(ours))
    for name, rates in theirs.items():
        table.row(what=f"{name}, the same", runs_per_s=p50(rates), times_ours=p50(rates) / p50(ours))
    if len(theirs) == len(SYSTEMS):
        best = max(map(p50, theirs.values()))
        table.at_least("runs a second in a file, times the better other one", bar=RUNS_LEAST, value=p50(ours) / best)
    else:
        table.row(what=f"absent: {', '.join(SYSTEMS.keys() - theirs.keys())} ({_INSTALL})")


async def _look_up(order: object) -> dict[str, Any]:
    """A step's body that costs nothing."""
    return {"order": order, "found": True}


async def _step_ms(path: Path, steps: int) -> list[float]:
    """Milliseconds of each step of a new journal, after its first 50."""
    taken = []
    async with Node.local(path) as node, node.open("case") as process:
        for index in range(steps):
            began = time.perf_counter()
            await process.step("look_up", _look_up, f"order {index}")
            taken.append((time.perf_counter() - began) * 1000)
    return taken[50:]


@agent("short")
async def _short(process: Process, input: Any) -> Any:
    """Three steps."""
    for step in range(STEPS):
        await process.step("look_up", _look_up, f"order {step}")
    return {"done": True}


async def _run_seconds(path: Path, runs: int) -> float:
    """Seconds of so many runs, 50 at once."""
    async with Node.local(path) as node:
        run: Callable[[str], Awaitable[object]] = lambda name: node.run(_short, name, {"order": 1})  # noqa: E731
        return await seconds_at_once(run, runs)


def _rivals(python: str, folder: Path, number: int, what: str, count: int) -> dict[str, Any]:
    """Return what the other systems print, by their names; those that are not installed are missing."""
    found = {}
    for name, program in SYSTEMS.items():
        file = folder / f"{program[1:-3]}-{what}-{number}.db"
        script = Path(__file__).with_name(program)
        done = subprocess.run([python, script, what, file, str(count)], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        printed = loads(done.stdout.splitlines()[-1])
        if what in printed:
            found[name] = printed[what]
    return found
