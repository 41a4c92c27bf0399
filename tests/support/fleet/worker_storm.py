"""Workers that come, go and are killed every two seconds while runs are submitted."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path

from ledger_fleet import WorkerFleet, ended, fleet_of
from ledger_run import Judged, judge
from quiet_log import until_quiet
from seekpoint.producers import Client
from seekpoint.schemas import Settings

__all__ = ["Storm", "storm"]

_EVERY_S, _LIVING_MAX = 2.0, 5


@dataclass
class Storm:
    """What came and went, and how long runs took meanwhile."""

    joined: int = 0
    drained: int = 0
    killed: int = 0
    run_max_s: float = 0.0
    """From the submission of a run to its result."""
    calm_after_s: float = 0.0
    """From the last change to the last result."""


async def storm(
    settings: Settings, folder: Path, *, runs: int, lasts_s: float, seed: int, deadline_s: float
) -> tuple[Judged, Storm]:
    """Submit ``runs`` in the course of the storm, wait for their results, and judge ledger and journal."""
    judged, seen = Judged(runs=runs), Storm()
    with fleet_of(settings, folder, 3, call_takes_s=0.3, runs_max=100) as fleet:
        async with Client.connect(settings) as client, asyncio.timeout(deadline_s):
            await asyncio.to_thread(fleet.wait_assigned)

            async def one(number: int) -> None:
                await asyncio.sleep(number * lasts_s / runs)
                submitted_at = time.monotonic()
                await client.submit("ledger", f"run-{number}", number)
                await ended(client, f"run-{number}", 15.0)
                seen.run_max_s = max(seen.run_max_s, time.monotonic() - submitted_at)

            async with asyncio.TaskGroup() as group:
                for number in range(runs):
                    group.create_task(one(number))
                await _change(fleet, seen, judged, lasts_s, random.Random(seed))
                over_at = time.monotonic()
            seen.calm_after_s = time.monotonic() - over_at
            judged.faults += await until_quiet(client)
        judged.lives, judged.kills = fleet.started, seen.killed
    judge(settings, folder / "ledger.jsonl", judged)
    return judged, seen


async def _change(fleet: WorkerFleet, seen: Storm, judged: Judged, lasts_s: float, chance: random.Random) -> None:
    """Let a worker join or leave every two seconds; every second one that leaves is killed."""
    until, leaving = time.monotonic() + lasts_s, []
    while time.monotonic() < until:
        await asyncio.sleep(_EVERY_S)
        living = list(fleet.lives)
        if len(living) == 1 or (len(living) < _LIVING_MAX and chance.random() < 0.5):
            fleet.start()
            seen.joined += 1
        elif seen.killed <= seen.drained:
            fleet.kill(chance.choice(living))
            seen.killed += 1
        else:
            leaving.append(asyncio.create_task(asyncio.to_thread(fleet.drain, chance.choice(living))))
            await asyncio.sleep(0.1)  # until it is off the list of those that live
            seen.drained += 1
    codes = await asyncio.gather(*leaving)
    judged.faults += [f"a worker that drained ended with {code}" for code in codes if code]
