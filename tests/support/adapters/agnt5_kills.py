"""Runs ``agnt5_program`` and kills it with -9 at random moments, until it is done; checks what its ledger says."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from seekpoint import Node
from seekpoint.adapters.agnt5 import DurableWorkflows

__all__ = ["KilledWorkflow", "run_with_kills"]

PROGRAM = Path(__file__).parent / "agnt5_program.py"
PROJECT, RUN = "shop", "case-1"
_LIMIT_S = 60.0


@dataclass
class KilledWorkflow:
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
    journal: str, folder: Path, env: Mapping[str, str], node: Callable[[], Node], *, kills: int, turns: int, seed: int
) -> KilledWorkflow:  # fmt: skip
    """Kill the program ``kills`` times, each time some calls later, and let the last one end."""
    ledger, chance, run = folder / "ledger", random.Random(seed), KilledWorkflow()
    calls = 2 * turns + turns // 3 + 3
    while True:
        program = subprocess.Popen(
            [sys.executable, str(PROGRAM), journal, str(ledger), str(turns)],
            env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            if run.kills < kills:
                _wait_for(program, ledger, _lines(ledger) + chance.randint(1, max(1, calls // (kills + 1) - 1)))
                time.sleep(chance.uniform(0.0, 0.02))
            if run.kills < kills and program.poll() is None:
                program.kill()
                run.kills += 1
            said, errors = program.communicate(timeout=_LIMIT_S)
        finally:
            program.kill()
            program.communicate()
        if said.startswith("unknown"):
            run.unknown += 1
            asyncio.run(_settle(said.split()[1], ledger.read_text(), node))
        elif said or program.returncode != -9:
            assert said == "done\n", said + errors
            break
    _check(ledger.read_text().splitlines(), turns, run)
    return run


async def _settle(activation_id: str, ledger: str, node: Callable[[], Node]) -> None:
    """Say of a payment whether the ledger has it."""
    async with node() as running, DurableWorkflows(running, project_id=PROJECT, wait_s=30) as workflows:
        key = (await workflows.activations.run(PROJECT, RUN)).activations()[activation_id].stable_key
        turn = key.rpartition("-")[2]
        settle = workflows.activations.settle
        if f" pay-{turn} " in ledger:
            await settle(PROJECT, RUN, activation_id, "completed", output=f'"paid {turn}"'.encode())
        else:
            await settle(PROJECT, RUN, activation_id, "retry", reason="the bank knows nothing of it")


def _lines(ledger: Path) -> int:
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def _wait_for(program: subprocess.Popen[str], ledger: Path, lines: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while _lines(ledger) < lines and program.poll() is None:
        assert time.monotonic() < deadline, "the program does not get on"
        time.sleep(0.002)


def _stage(call: str) -> float:
    """The place of a call in the one order in which they are made."""
    kind, turn = call.split("-")
    if kind in ("first", "last"):
        return -1.0 if kind == "first" else float("inf")
    return 3 * int(turn) + {"model": 0, "look": 1, "pay": 2}[kind]


def _check(lines: list[str], turns: int, run: KilledWorkflow) -> None:
    """A program makes no call again but the one that was in flight at the kill, and no payment again."""
    made: list[str] = []
    for pid, group in groupby((line.split() for line in lines), key=lambda row: row[0]):
        rows = [(call, float(seconds)) for _, call, seconds in group]
        in_flight = made[-1] if made else None
        run.first_calls_s.append(rows[0][1])
        for call, _ in rows:
            kind = call.split("-")[0]
            if call in made and (kind == "pay" or call != in_flight):
                run.wrong.append(f"the program {pid} made {call} again")
            if in_flight is not None and _stage(call) < _stage(in_flight):
                run.wrong.append(f"the program {pid} made {call} after {in_flight}")
            run.repeated[kind] += call in made
        if len({call for call, _ in rows}) != len(rows):
            run.wrong.append(f"the program {pid} made a call twice")
        made += [call for call, _ in rows]
    run.calls = len(lines)
    wanted = {"first-0", "last-0", *(f"model-{turn}" for turn in range(turns + 1))}
    wanted |= {f"look-{turn}" for turn in range(turns)} | {f"pay-{turn}" for turn in range(2, turns, 3)}
    if missing := wanted - set(made):
        run.wrong.append(f"these calls were never made: {sorted(missing)}")
