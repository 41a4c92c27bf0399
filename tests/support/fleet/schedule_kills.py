"""The worker that fires the schedules is killed between noticing a firing and noting it: each fires once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_programs import decode, read_records
from seekpoint.producers import Client
from seekpoint.producers.durable.steps.cron_schedules import firing_id, moment_text
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import ResultTimeout
from waiting_kills import Waits, dead_in, replace_dead, told, waiting_workers

__all__ = ["SCHEDULE", "disturb_schedule"]

SCHEDULE = "schedule"
_POINTS = ("submits", "submitted", "notes", "noted")
_SPEED = 7.5
"""How fast the clock of the schedules goes: a firing a minute is one every eight seconds.

The group notices after six seconds that a member died. Until then nobody is assigned its part of the inbox.
"""
_PATIENCE_S = 60.0


async def disturb_schedule(settings: Settings, folder: Path, kills: int, calm: int) -> Waits:
    """Let ``calm`` firings happen without a fault, then ``kills`` at which the worker that fires dies."""
    waits, began_at = Waits(SCHEDULE, kills=kills), time.time()
    with waiting_workers(settings, folder, FLEET_CLOCK=f"{began_at} {_SPEED}") as fleet:
        async with Client.connect(settings) as client:
            first = await _first_moment(client)
            moments = [first + timedelta(minutes=number) for number in range(1, 1 + calm + kills)]
            for number, moment in enumerate(moments[calm:]):
                (folder / f"{firing_id('tick', moment)}={_POINTS[number % len(_POINTS)]}").touch()
            replacing = asyncio.create_task(replace_dead(fleet))
            try:
                for moment in moments:
                    after_s = began_at + (moment.timestamp() - began_at) / _SPEED - time.time()
                    try:
                        result = await client.result(firing_id("tick", moment), max(0.0, after_s) + _PATIENCE_S)
                    except ResultTimeout as exc:
                        waits.faults.append(str(exc))
                        break
                    if result != moment_text(moment):
                        waits.faults.append(f"the run of {moment} gave {result!r}")
            finally:
                replacing.cancel()
    _judge(settings, folder, waits, moments, calm, began_at)
    return waits


async def _first_moment(client: Client) -> datetime:
    """Return the first firing of the schedule, which no worker had before."""
    async with asyncio.timeout(_PATIENCE_S):
        while not (found := await client.schedules()):  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.1)
    return found[0].last.replace(second=0, tzinfo=UTC) + timedelta(minutes=1)


def _judge(
    settings: Settings, folder: Path, waits: Waits, moments: Sequence[datetime], calm: int, began_at: float
) -> None:
    """Each firing is one run that ended once, and the step of it was not repeated."""
    ended, dead = _ended(settings), dead_in(folder)
    acts = defaultdict[str, list[dict[str, float]]](list)
    for line in told(folder / "told.jsonl"):
        acts[line["id"]].append(line)
    for number, moment in enumerate(moments):
        process_id = firing_id("tick", moment)
        by = [int(one["by"]) for one in acts[process_id]]
        if ended[process_id] != 1:
            waits.faults.append(f"{process_id} ended {ended[process_id]} times")
        if not by or len(set(by)) < len(by) or not dead.issuperset(by[:-1]):
            waits.faults.append(f"{process_id}: its step was executed by {by}, killed were {sorted(dead)}")
        if number >= calm and not any(folder.glob(f"{process_id}.killed-*")):
            waits.faults.append(f"{process_id}: no worker was killed: nothing is proven")
        late_s = (
            min((one["at"] for one in acts[process_id]), default=float("inf"))
            - began_at
            - (moment.timestamp() - began_at) / _SPEED
        )
        (waits.late_s if number < calm else waits.late_after_kill_s).append(late_s)
    between = {firing_id("tick", moment) for moment in moments}
    others = {one for one in acts if one not in between and min(between) < one < max(between)}
    waits.faults += [f"{one} is the run of no firing" for one in sorted(others)]


def _ended(settings: Settings) -> Counter[str]:
    """Return how often each run ended, as the journal has it."""
    epochs, ended = Counter[str](), Counter[str]()
    for partition in range(settings.partitions):
        for message in read_records(settings, partition):
            entry = decode(message.value())
            name, body = entry["body"]
            process_id = entry["process_id"]
            if name == "seekpoint.Claim" and body["expected_epoch"] == epochs[process_id]:
                epochs[process_id] += 1
            elif name == "seekpoint.Finished" and entry["epoch"] == epochs[process_id]:
                ended[process_id] += 1
    return ended
