"""Check what the ledger of a program says that was killed again and again.

The programs are ``runner_program``, ``pydantic_program`` and ``adk_program``: the first says what its ledger has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from killed_programs import KilledRun, kill_until_done
from seekpoint import SyncNode

__all__ = ["run_with_kills"]

PROCESS = "case-1"


def run_with_kills(
    journal: str, folder: Path, env: Mapping[str, str], node: Callable[[], SyncNode], *, kills: int, turns: int,
    seed: int, program: str = "runner_program",
) -> KilledRun:  # fmt: skip
    """Kill the program ``kills`` times, each time some calls later, and let the last one end."""
    ledger = folder / "ledger"
    run = kill_until_done(
        program, journal, ledger, env, kills=kills, turns=turns, calls=turns * 3 + turns // 3 + 1, seed=seed,
        settle=lambda key: _tell(key, ledger, node),
    )  # fmt: skip
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


def _stage(call: str) -> int:
    """The calls of one stage are made at once, and those of the next one after them."""
    kind, turn = call.split("-")
    return 2 * int(turn.rstrip("ab")) + (kind != "model")


def _check(lines: list[str], turns: int, run: KilledRun) -> None:
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
