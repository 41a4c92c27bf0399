"""Ten thousand runs wait for approvals in two workers: what that costs, and how soon each goes on."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger_fleet import WorkerFleet
from seekpoint.producers import Client
from seekpoint.schemas import Settings
from waiting_agents import approval
from waiting_kills import told

__all__ = ["Costs", "wait_on_gates"]

_SUPPORT = Path(__file__).parent.parent
_SEEKPOINT = ("-c", "import sys; from seekpoint.console.cli import main; sys.exit(main())")
_AT_ONCE, _PATIENCE_S = 200, 300.0


@dataclass
class Costs:
    """What the waiting cost, and the seconds from approvals to the steps after them."""

    waiting: int
    """How many runs the workers said that wait."""
    cores: list[float]
    """The part of a core that each worker used while nothing happened."""
    resident_mb: list[float]
    one_by_one_s: list[float]
    burst_s: list[float]


async def wait_on_gates(
    settings: Settings, folder: Path, *, runs: int, single: int, burst: int, idle_s: float, has_projector: bool
) -> Costs:
    """Let ``runs`` wait, look at the idle workers, then approve ``single`` one by one and ``burst`` at once."""
    file = folder / "told.jsonl"
    with _programs(settings, folder, has_projector) as fleet:
        async with Client.connect(settings) as client:
            room = asyncio.Semaphore(_AT_ONCE)

            async def submit(number: int) -> None:
                async with room:
                    await client.submit(approval, _id(number), number)

            await asyncio.gather(*(submit(number) for number in range(runs)))
            waiting = await _until_waiting(settings, fleet, runs)
            pids = [worker.pid for worker in fleet.lives.values()]
            before = [_processor_s(pid) for pid in pids]
            await asyncio.sleep(idle_s)
            cores = [(_processor_s(pid) - was) / idle_s for pid, was in zip(pids, before, strict=True)]
            resident = [_resident_mb(pid) for pid in pids]
            approved = {}
            for number in range(single):
                approved[_id(number)] = await _approve(client, number)
                assert await client.result(_id(number), _PATIENCE_S) == "approved"
            numbers = range(single, single + burst)
            times = await asyncio.gather(*(_approve(client, number) for number in numbers))
            at_once = dict(zip(map(_id, numbers), times, strict=True))
            await asyncio.gather(*(client.result(_id(number), _PATIENCE_S) for number in numbers))
    acted = {one["id"]: one["at"] for one in reversed(told(file)) if one["what"] == "acted"}
    return Costs(waiting, cores, resident, _delays(acted, approved), _delays(acted, at_once))


def _id(number: int) -> str:
    return f"approval-{number}"


async def _approve(client: Client, number: int) -> float:
    """Approve one; return when it was approved."""
    await client.approve(_id(number), "approve")
    return time.time()


def _delays(acted: dict[str, float], approved: dict[str, float]) -> list[float]:
    return [acted[process_id] - at for process_id, at in approved.items()]


@contextmanager
def _programs(settings: Settings, folder: Path, has_projector: bool) -> Iterator[WorkerFleet]:
    """Start two workers by the command, and a projector."""
    environ = {"FLEET_FILE": str(folder / "told.jsonl"), "PYTHONPATH": str(_SUPPORT / "fleet")}
    command = (*_SEEKPOINT, "worker", "waiting_agents:approval", "--runs-max", "500", "--grace", "0.5")
    fleet = WorkerFleet(settings, folder, command, **environ)
    projector = WorkerFleet(settings, folder, [str(_SUPPORT / "projector" / "projector_program.py")])
    try:
        if has_projector:
            projector.start()
        for _ in range(2):
            fleet.start()
        yield fleet
    finally:
        fleet.end()
        projector.end()


async def _until_waiting(settings: Settings, fleet: WorkerFleet, runs: int) -> int:
    """Return once the workers say that so many runs wait, and none is in memory; how many these are."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            workers = await _workers(fleet)
            waiting = sum(one["waiting"] for one in workers)
            if waiting >= runs and not sum(one["running"] + one["ready"] for one in workers):
                return waiting
            await asyncio.sleep(1.0)


async def _workers(fleet: WorkerFleet) -> list[dict[str, int]]:
    """Return what ``seekpoint workers --json`` says."""
    asked = await asyncio.create_subprocess_exec(
        sys.executable, *_SEEKPOINT, "workers", "--json", env=fleet.environ(), stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await asked.communicate()
    found: list[dict[str, int]] = json.loads(answer)["workers"]
    return found


def _processor_s(pid: int) -> float:
    """Return the processor time that a program has used."""
    fields: Sequence[bytes] = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    (line,) = (one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
