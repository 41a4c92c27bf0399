"""One of three workers is killed with many runs under way: what the others do, and when."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path

from ledger_fleet import WorkerFleet, ended, fleet_of, ledger_lines
from ledger_run import Judged, judge, read_owners
from seekpoint.producers import Client
from seekpoint.schemas import Settings

__all__ = ["Resumed", "kill_one"]


@dataclass(frozen=True, slots=True)
class Resumed:
    """What happened after the kill, in seconds from the kill on."""

    orphans: int
    """How many runs the killed worker owned, and others took over."""
    first_step_s: float
    """The first call of a body for one of them."""
    first_s: float
    """When the code of the first one ran again."""
    last_s: float
    """When the code of the last one ran again."""
    end_s: float
    """When the last result of all runs was there."""


async def kill_one(
    settings: Settings, folder: Path, *, runs: int, workers: int = 3, call_takes_s: float, seed: int, deadline_s: float
) -> tuple[Judged, Resumed]:
    """Let all runs begin, kill one worker, wait for all results, and judge what the ledger and the journal say."""
    judged = Judged(runs=runs, kills=1)
    with fleet_of(settings, folder, workers, call_takes_s=call_takes_s, runs_max=runs) as fleet:
        async with Client.connect(settings) as client, asyncio.timeout(deadline_s):
            await asyncio.to_thread(fleet.wait_assigned)
            await asyncio.gather(*(client.submit("ledger", f"run-{number}", number) for number in range(runs)))
            async with asyncio.TaskGroup() as group:
                patience_s = max(2.0, 8 * call_takes_s)
                tasks = [group.create_task(ended(client, f"run-{number}", patience_s)) for number in range(runs)]
                await asyncio.to_thread(_until_all_at_work, folder / "ledger.jsonl", runs)
                assert not any(task.done() for task in tasks), "a run ended before the kill: let the calls take longer"
                killed, killed_at = _kill(fleet, random.Random(seed))
            end_s = time.time() - killed_at
        judged.lives = fleet.started
    judge(settings, folder / "ledger.jsonl", judged)
    return judged, _resumed(settings, folder / "ledger.jsonl", killed, killed_at, end_s)


def _kill(fleet: WorkerFleet, chance: random.Random) -> tuple[int, float]:
    killed, killed_at = chance.choice(list(fleet.lives)), time.time()
    fleet.kill(killed)
    return killed, killed_at


def _until_all_at_work(ledger: Path, runs: int, timeout_s: float = 60.0) -> None:
    """Return once each run has called something."""
    deadline = time.monotonic() + timeout_s
    while len({one["key"].partition("/")[0] for one in ledger_lines(ledger) if one["what"] == "call"}) < runs:
        assert time.monotonic() < deadline, "not all runs begin"
        time.sleep(0.1)


def _resumed(settings: Settings, ledger: Path, killed: int, killed_at: float, end_s: float) -> Resumed:
    """Find the runs that the killed worker left, and when another one ran their code."""
    owners = read_owners(settings)
    orphans = {one for (one, life), epoch in owners.epochs.items() if life == killed and owners.owners[one] > epoch}
    ran: dict[str, float] = {}
    stepped: list[float] = []
    for said in ledger_lines(ledger):
        process_id, after_s = said["key"].partition("/")[0], said["at"] - killed_at
        if process_id in orphans and said["by"] != killed and after_s > 0:
            ran.setdefault(process_id, after_s)
            if said["what"] == "call":
                stepped.append(after_s)
    assert ran, "the killed worker owned nothing: nothing is proven"
    assert ran.keys() == orphans, f"no worker ran {sorted(orphans - ran.keys())[:5]} again"
    return Resumed(len(orphans), min(stepped), min(ran.values()), max(ran.values()), end_s)
