"""Kill a program of agents with -9 at random moments, until it is done."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["KilledRun", "kill_until_done"]

FOLDER = Path(__file__).parent
_LIMIT_S = 60.0


@dataclass
class KilledRun:
    """What the ledger says of a run whose program was killed."""

    kills: int = 0
    calls: int = 0
    repeated: Counter[str] = field(default_factory=Counter)
    """The calls that were in flight at a kill and were made again, by their kind."""
    unknown: int = 0
    """How often nobody knew whether a payment was made: the ledger told."""
    first_calls_s: list[float] = field(default_factory=list)
    """The times from each program that could begin to its first call."""
    wrong: list[str] = field(default_factory=list)


def kill_until_done(
    program: str, journal: str, ledger: Path, env: Mapping[str, str], *, kills: int, turns: int, calls: int, seed: int,
    settle: Callable[[str], None],
) -> KilledRun:  # fmt: skip
    """Kill ``PROGRAM.py JOURNAL LEDGER TURNS`` ``kills`` times, each time some calls later, and let the last one end.

    ``calls`` is about how many the run makes. A program that ends with ``unknown KEY`` needs ``settle(KEY)`` first.
    """
    chance, run = random.Random(seed), KilledRun()
    while True:
        running = subprocess.Popen(
            [sys.executable, str(FOLDER / f"{program}.py"), journal, str(ledger), str(turns)],
            env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            if run.kills < kills:
                _wait_for(running, ledger, _lines(ledger) + chance.randint(1, max(1, calls // (kills + 1) - 1)))
                time.sleep(chance.uniform(0.0, 0.02))
            if run.kills < kills and running.poll() is None:
                running.kill()
                run.kills += 1
            said, errors = running.communicate(timeout=_LIMIT_S)
        finally:
            running.kill()
            running.communicate()
        if said.startswith("unknown"):
            run.unknown += 1
            settle(said.split()[1])
        elif said or running.returncode != -signal.SIGKILL:
            assert said == "done\n", said + errors
            return run


def _lines(ledger: Path) -> int:
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def _wait_for(program: subprocess.Popen[str], ledger: Path, lines: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while _lines(ledger) < lines and program.poll() is None:
        assert time.monotonic() < deadline, "the program does not get on"
        time.sleep(0.002)
