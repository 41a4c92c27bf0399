"""Runs a program of agents and kills it with -9 at random moments, until it is done; checks what its ledger says.

The programs are ``runner_program``, ``pydantic_program`` and ``adk_program``: the first says what its ledger has.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from seekpoint import SyncNode

__all__ = ["KilledRunner", "run_with_kills"]

FOLDER = Path(__file__).parent
PROCESS = "case-1"
_LIMIT_S = 60.0


@dataclass
class KilledRunner:
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


def run_with_kills(
    journal: str, folder: Path, env: Mapping[str, str], node: Callable[[], SyncNode], *, kills: int, turns: int,
    seed: int, program: str = "runner_program",
) -> KilledRunner:  # fmt: skip
    """Kill the program ``kills`` times, each time some calls later, and let the last one end."""
    file = FOLDER / f"{program}.py"
    ledger, chance, run = folder / "ledger", random.Random(seed), KilledRunner()
    calls = turns * 3 + turns // 3 + 1
    while True:
        running = subprocess.Popen(
            [sys.executable, str(file), journal, str(ledger), str(turns)],
            env=dict(env), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            if run.kills < kills:
                _wait_for(running, ledger, _lines(ledger) + chance.randint(1, max(1, calls // (kills + 1) - 1)))
                time.sleep(chance.uniform(0.0, 0.02))
            if run.kills < kills and running.poll() is None:
                running.kill()
                run.kills += 1
            said, _ = running.communicate(timeout=_LIMIT_S)
        finally:
            running.kill()
            running.communicate()
        if said.startswith("unknown"):
            run.unknown += 1
            _tell(said.split()[1], ledger, node)
        elif said:
            assert said == "done\n", said
            break
    _check(ledger.read_text().splitlines(), turns, run)
    return run


def _tell(key: str, ledger: Path, node: Callable[[], SyncNode]) -> None:
    """Say of the newest payment whether the ledger has it."""
    with node() as running:
        state = running.recover(PROCESS).state
        ordinal = sum("pay:" in name for name in state.calls)
        turn = 3 * ordinal - 1
        if f" pay-{turn} " in ledger.read_text():
            running.verdict(PROCESS, key, "succeeded", output={"value": f"paid {turn}"})
        else:
            running.verdict(PROCESS, key, "failed", reason="the bank knows nothing of it")


def _lines(ledger: Path) -> int:
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def _wait_for(program: subprocess.Popen[str], ledger: Path, lines: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while _lines(ledger) < lines and program.poll() is None:
        assert time.monotonic() < deadline, "the program does not get on"
        time.sleep(0.002)


def _stage(call: str) -> int:
    """The calls of one stage are made at once, and those of the next one after them."""
    kind, turn = call.split("-")
    return 2 * int(turn.rstrip("ab")) + (kind != "model")


def _check(lines: list[str], turns: int, run: KilledRunner) -> None:
    """A program makes no call again but those of the stage that was in flight at the kill, and no payment again."""
    made: set[str] = set()
    for pid, group in groupby((line.split() for line in lines), key=lambda row: row[0]):
        rows = [(call, float(seconds)) for _, call, seconds in group]
        in_flight = max(map(_stage, made), default=0)
        run.first_calls_s.append(rows[0][1])
        for call, _ in rows:
            kind = call.split("-")[0]
            if call in made and (kind == "pay" or _stage(call) != in_flight):
                run.wrong.append(f"the program {pid} made {call} again")
            if _stage(call) < in_flight:
                run.wrong.append(f"the program {pid} made {call} after those of later turns")
            run.repeated[kind] += call in made
        if len({call for call, _ in rows}) != len(rows):
            run.wrong.append(f"the program {pid} made a call twice")
        made |= {call for call, _ in rows}
    run.calls = len(lines)
    wanted = {f"model-{turn}" for turn in range(turns + 1)}
    wanted |= {f"look-{turn}{side}" for turn in range(turns) for side in "ab"}
    if missing := wanted - made:
        run.wrong.append(f"these calls were never made: {sorted(missing)}")
