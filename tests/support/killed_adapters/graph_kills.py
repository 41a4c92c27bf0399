"""Runs a program such as ``graph_program`` and kills it with -9 at random, until it is done; checks its ledger."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

__all__ = ["KilledRun", "run_with_kills"]

PROGRAM = Path(__file__).parent / "graph_program.py"
_LIMIT_S = 60.0


@dataclass
class KilledRun:
    """What the ledger says of a run whose program was killed."""

    kills: int = 0
    calls: int = 0
    repeated: int = 0
    """The calls that were in flight at a kill, and were made again."""
    slowest_first_call_s: float = 0.0
    """The longest time from a program that could begin to its first call."""
    wrong: list[str] = field(default_factory=list)


def run_with_kills(
    journal: str, folder: Path, env: Mapping[str, str], *, kills: int, calls: int, seed: int, program: Path = PROGRAM
) -> KilledRun:
    """Kill ``program`` ``kills`` times, each time some calls later, and let the last one end."""
    ledger, chance, run = folder / "ledger", random.Random(seed), KilledRun()
    while True:
        running = subprocess.Popen(
            [sys.executable, str(program), journal, str(ledger), str(calls)],
            env=dict(env), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            if run.kills == kills:
                said, _ = running.communicate(timeout=_LIMIT_S)
                assert said == "done\n", said
                break
            before = _lines(ledger)
            _wait_for(running, ledger, before + chance.randint(1, max(1, calls // (kills + 1) - 1)))
            time.sleep(chance.uniform(0.0, 0.015))
        finally:
            running.kill()
            running.communicate()
        run.kills += 1
    _check(ledger.read_text().splitlines(), calls, run)
    return run


def _lines(ledger: Path) -> int:
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def _wait_for(program: subprocess.Popen[str], ledger: Path, lines: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while _lines(ledger) < lines:
        assert program.poll() is None, "the program ended too early"
        assert time.monotonic() < deadline, "the program does not get on"
        time.sleep(0.002)


def _check(lines: list[str], calls: int, run: KilledRun) -> None:
    """A program begins with the call that was in flight at the kill, or the next one, and makes each once, in order."""
    expected = 0
    for pid, group in groupby((line.split() for line in lines), key=lambda row: row[0]):
        rows = [(int(number), float(seconds)) for _, number, seconds in group]
        numbers = [number for number, _ in rows]
        run.repeated += numbers[0] == expected - 1
        run.slowest_first_call_s = max(run.slowest_first_call_s, rows[0][1])
        if numbers[0] not in (expected, expected - 1) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            run.wrong.append(f"the program {pid} made the calls {numbers}, and {expected} was next")
        expected = numbers[-1] + 1
    run.calls = len(lines)
    if expected != calls:
        run.wrong.append(f"the last call was {expected - 1}")
