"""A member of the reactors' group is killed between noticing and acting: each reaction and each wake happens once.

A reaction starts a run under an id of its own, whichever member makes it. The sweep, which the leader does, wakes a
process whose worker overlooks the moment that the process waits for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from ledger_fleet import WorkerFleet
from seekpoint.producers import Client
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import ResultTimeout
from waiting_kills import History, Waits, dead_in, read, replace_dead, told, waiting_workers

__all__ = ["REACTIONS", "SWEEPS", "disturb_reactors"]

REACTIONS, SWEEPS = "reactions", "sweeps"
_POINTS = {REACTIONS: ("heard", "reacted"), SWEEPS: ("sweeps", "swept")}
_MEMBERS, _PATIENCE_S, _WAITS_S = 3, 90.0, 3.0
_SUPPORT = Path(__file__).parent.parent


async def disturb_reactors(settings: Settings, folder: Path, kind: str, kills: int, calm: int) -> Waits:
    """Let ``calm`` processes go on without a fault, then ``kills`` at which a member of the reactors' group dies."""
    waits = Waits(kind, kills=kills)
    projector = WorkerFleet(settings, folder, [str(_SUPPORT / "projector" / "projector_program.py")])
    program = [str(Path(__file__).with_name("reactor_program.py")), str(folder)]
    reactors = WorkerFleet(settings, folder, program, FLEET_FILE=str(folder / "told.jsonl"))
    with waiting_workers(settings, folder, 2, FLEET_BLIND="blind-"):
        try:
            projector.start()
            for _ in range(_MEMBERS):
                reactors.start()
            await _until_joined(folder)
            async with Client.connect(settings) as client:
                replacing = asyncio.create_task(replace_dead(reactors))
                try:
                    for number in range(calm + kills):
                        point = None if number < calm else _POINTS[kind][number % 2]
                        await _one(client, folder, waits, number, point)
                finally:
                    replacing.cancel()
        finally:
            reactors.end()
            projector.end()
    _judge(settings, folder, waits, calm, calm + kills)
    return waits


async def _until_joined(folder: Path) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while sum(one["what"] == "joined" for one in told(folder / "told.jsonl")) < _MEMBERS:  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.1)


def _names(kind: str, number: int) -> tuple[str, str]:
    """Return the process that is noticed, and the one that goes on."""
    return (
        (f"source-{number}", f"source-{number}.next") if kind == REACTIONS else (f"blind-{number}", f"blind-{number}")
    )


async def _one(client: Client, folder: Path, waits: Waits, number: int, point: str | None) -> None:
    noticed, goes_on = _names(waits.kind, number)
    if point is not None:
        (folder / f"{noticed}={point}").touch()
    await client.submit("timer", noticed, _WAITS_S if waits.kind == SWEEPS else 0.05)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while (await client.status(goes_on)).stage == "unknown":  # noqa: ASYNC110  # it is submitted by a reactor
                await asyncio.sleep(0.1)
        result = await client.result(goes_on, _PATIENCE_S)
    except (ResultTimeout, TimeoutError) as exc:
        waits.faults.append(f"{goes_on} did not end: {exc}")
        return
    if result != "fired":
        waits.faults.append(f"{goes_on} gave {result!r}")
    if point is not None and not await asyncio.to_thread(_is_killed, folder, noticed):
        waits.faults.append(f"{noticed}: no member was killed: nothing is proven")


def _is_killed(folder: Path, process_id: str) -> bool:
    """Return whether a member died at the process, by now or two seconds later."""
    until_s = time.monotonic() + 2.0
    while not any(folder.glob(f"{process_id}.killed-*")):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.05)
    return True


def _judge(settings: Settings, folder: Path, waits: Waits, calm: int, count: int) -> None:
    """Each process that went on did so once in the log, and because a reactor or the sweep acted."""
    histories, lines = read(settings, "TimerFired"), told(folder / "told.jsonl")
    acted = Counter(one["id"] for one in lines if one["what"] == "acted")
    called = {one["id"] for one in lines if one["what"] == _TOLD[waits.kind]}
    if not dead_in(folder):
        waits.faults.append("no member was killed")
    for number in range(count):
        noticed, goes_on = _names(waits.kind, number)
        found = histories.get(goes_on, History())
        if len(found.acted_at) != 1 or acted[goes_on] != 1:
            waits.faults.append(f"{goes_on} fired {len(found.acted_at)} times, its step ran {acted[goes_on]} times")
            continue
        if noticed not in called:
            waits.faults.append(f"{noticed}: a reactor did not act")
        came_at = histories[noticed].finished_at if waits.kind == REACTIONS else found.due_at
        late_s = (found.began_at if waits.kind == REACTIONS else found.acted_at[0]) - came_at
        (waits.late_s if number < calm else waits.late_after_kill_s).append(late_s)


_TOLD = {REACTIONS: "reacted", SWEEPS: "swept"}
