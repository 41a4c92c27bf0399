"""Redis is flushed, frozen and absent while workers run: runs go on, and nobody is taken for dead."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis

from ledger_fleet import WorkerFleet, ended, fleet_of, ledger_lines
from ledger_run import Judged, judge
from seekpoint.compose import LocalCluster
from seekpoint.producers import Client
from seekpoint.schemas import Settings

__all__ = ["Phases", "disturb_redis"]

_PROJECTOR = Path(__file__).parent.parent / "projector" / "projector_program.py"
_PER_S = 2.0
"""How many runs are submitted in a second. Each has five calls of five seconds."""
_CALL_TAKES_S = 5.0


@dataclass
class Phases:
    """What happened in each phase."""

    calls: dict[str, int] = field(default_factory=dict)
    longest_silence_s: dict[str, float] = field(default_factory=dict)
    """The longest time without a new call."""


async def disturb_redis(
    cluster: LocalCluster, settings: Settings, folder: Path, *, frozen_s: float, absent_s: float, deadline_s: float
) -> tuple[Judged, Phases]:
    """Run workers and a projector through all phases; wait for all results; judge the ledger and the journal."""
    judged, moments = Judged(), list[tuple[str, float]]()
    projector = WorkerFleet(settings, folder, [str(_PROJECTOR)])
    with fleet_of(settings, folder, 3, call_takes_s=_CALL_TAKES_S, runs_max=100) as fleet:
        try:
            projector.start()
            async with Client.connect(settings) as client, asyncio.timeout(deadline_s):
                await asyncio.to_thread(fleet.wait_assigned)
                stop = asyncio.Event()
                async with asyncio.TaskGroup() as group:
                    submitting = group.create_task(_submit(client, stop))
                    await _phases(cluster, moments, frozen_s, absent_s)
                    stop.set()
                judged.runs = submitting.result()
                await asyncio.gather(*(ended(client, f"run-{number}", 60.0) for number in range(judged.runs)))
        finally:
            projector.end()
        judged.lives = fleet.started
    judge(settings, folder / "ledger.jsonl", judged)
    return judged, _observed(folder / "ledger.jsonl", moments)


async def _submit(client: Client, stop: asyncio.Event) -> int:
    """Submit runs until ``stop`` is set; return how many."""
    number = 0
    while not stop.is_set():
        await client.submit("ledger", f"run-{number}", number)
        number += 1
        await asyncio.sleep(1 / _PER_S)
    return number


async def _phases(cluster: LocalCluster, moments: list[tuple[str, float]], frozen_s: float, absent_s: float) -> None:
    """Flush, freeze and stop Redis, each after a while of calm."""

    async def phase(name: str, lasts_s: float) -> None:
        moments.append((name, time.time()))
        await asyncio.sleep(lasts_s)

    await phase("calm", 10.0)
    with redis.Redis.from_url(cluster.redis_url) as client:
        client.flushall()
    await phase("flushed", 15.0)
    cluster.valkey.pause()
    await phase("frozen", frozen_s)
    cluster.valkey.resume()
    await phase("awake", 10.0)
    cluster.valkey.kill()
    await phase("absent", absent_s)
    cluster.valkey.start()
    await phase("back", 10.0)
    moments.append(("", time.time()))


def _observed(ledger: Path, moments: list[tuple[str, float]]) -> Phases:
    called, seen = sorted(one["at"] for one in ledger_lines(ledger) if one["what"] == "call"), Phases()
    for (name, start), (_, end) in itertools.pairwise(moments):
        times = [start, *(at for at in called if start < at < end), end]
        seen.calls[name] = len(times) - 2
        seen.longest_silence_s[name] = max(after - before for before, after in itertools.pairwise(times))
    return seen
