"""Check what the ledger of ``agnt5_program`` says, which was killed again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from killed_programs import KilledRun, kill_until_done
from seekpoint import Node
from seekpoint.adapters.agnt5 import DurableWorkflows

__all__ = ["run_with_kills"]

PROJECT, RUN = "shop", "case-1"


def run_with_kills(
    journal: str, folder: Path, env: Mapping[str, str], node: Callable[[], Node], *, kills: int, turns: int, seed: int
) -> KilledRun:
    """Kill the program ``kills`` times, each time some calls later, and let the last one end."""
    ledger = folder / "ledger"
    run = kill_until_done(
        "agnt5_program", journal, ledger, env, kills=kills, turns=turns, calls=2 * turns + turns // 3 + 3, seed=seed,
        settle=lambda key: asyncio.run(_settle(key, ledger.read_text(), node)),
    )  # fmt: skip
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


def _stage(call: str) -> float:
    """The place of a call in the one order in which they are made."""
    kind, turn = call.split("-")
    if kind in ("first", "last"):
        return -1.0 if kind == "first" else float("inf")
    return 3 * int(turn) + {"model": 0, "look": 1, "pay": 2}[kind]


def _check(lines: list[str], turns: int, run: KilledRun) -> None:
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
