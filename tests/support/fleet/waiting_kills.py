"""The responsible worker is killed between noticing and acting: each wait acts once, and how late it is."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_programs import decode, read_records
from ledger_fleet import WorkerFleet
from quiet_log import until_quiet
from seekpoint.producers import Client
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import Cancelled, ResultTimeout

__all__ = [
    "KINDS",
    "POINTS",
    "History",
    "Waits",
    "dead_in",
    "disturb",
    "read",
    "replace_dead",
    "told",
    "waiting_workers",
]

KINDS = ("timer", "deadline", "signal", "cancel", "verdict", "child")
POINTS = ("noticed", "begins", "claimed", "opened", "writes", "written")
"""Where the worker dies. At the last two, the run may still be in memory when what it waits for comes."""
_WAITS_S, _PATIENCE_S = 4.0, 60.0
_ANOTHER = 1_000
_AT_ONCE = 3
"""How many processes of those whose worker dies wait at once: so a worker is killed every second."""
_ACTS = {
    "timer": "TimerFired", "deadline": "GateResolved", "signal": "Received", "cancel": "CancelAccepted",
    "verdict": "EffectSettled", "child": "ChildEnded",
}  # fmt: skip
_RESULTS = {"timer": "fired", "deadline": "timed_out", "cancel": "cancelled"}


@dataclass
class Waits:
    """What came of the waits of one kind."""

    kind: str
    kills: int = 0
    late_s: list[float] = field(default_factory=list)
    """How late each one acted without a fault."""
    late_after_kill_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One wait: where its worker has to die, and when what it waits for came."""

    process_id: str
    point: str | None
    came_at: float | None


class _Driver:
    """Lets one process after another wait, and brings what it waits for."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client, self._folder = client, folder

    async def one(self, waits: Waits, number: int, point: str | None) -> _Asked | None:
        """Return once a process that waits for ``waits.kind`` has ended; None if its worker was to die and did not.

        On a slow machine, the moment that a process waits for may come before the kill is asked for.
        """
        kind, client = waits.kind, self._client
        process_id = f"{kind}-{number}"
        await client.submit(kind, process_id, _WAITS_S)
        waiting = f"{process_id}.child" if kind == "child" else process_id
        await _until(lambda: any(one["what"] == "waits" and one["id"] == waiting for one in self._told()))
        if point not in POINTS[-2:] or number % 2:
            await self._until_released({process_id, waiting})
        if point is not None:
            (self._folder / f"{process_id}={point}").touch()
        came_at = time.time()
        if kind in ("signal", "child"):
            await client.signal(waiting, "go", process_id)
        elif kind == "cancel":
            await client.cancel(process_id)
        elif kind == "verdict":
            await self._until_unknown(process_id)
            came_at = time.time()
            await client.verdict(process_id, "pay:1", "succeeded", output=process_id, reason="seen", actor="a person")
        try:
            result = await client.result(process_id, _PATIENCE_S)
        except Cancelled:
            result = "cancelled"
        except ResultTimeout as exc:
            result = str(exc)
        if result != _RESULTS.get(kind, process_id):
            waits.faults.append(f"{process_id} gave {result!r}")
        if point is not None and not await self._is_killed(process_id):
            (self._folder / f"{process_id}={point}").unlink(missing_ok=True)
            return None
        return _Asked(process_id, point, came_at if kind in ("signal", "cancel", "verdict") else None)

    async def _is_killed(self, process_id: str) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                while not any(self._folder.glob(f"{process_id}.killed-*")):  # noqa: ASYNC110  # no event
                    await asyncio.sleep(0.05)
                return True
        return False

    def _told(self) -> list[dict[str, Any]]:
        return told(self._folder / "told.jsonl")

    async def _until_released(self, process_ids: set[str]) -> None:
        """Return once these processes wait, and nobody has them in memory."""
        async with asyncio.timeout(_PATIENCE_S):
            for process_id in process_ids:
                while True:
                    state = (await self._client.recover(process_id, missing_ok=True)).state
                    if state.agent is not None and state.owner is None:
                        break
                    await asyncio.sleep(0.05)

    async def _until_unknown(self, process_id: str) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while (await self._client.state(process_id)).calls["pay:1"].status != "unknown":  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.02)


async def disturb(settings: Settings, folder: Path, kind: str, kills: int, calm: int) -> Waits:
    """Let ``calm`` processes wait and act without a fault, then ``kills`` whose worker dies."""
    waits = Waits(kind, kills=kills)
    with waiting_workers(settings, folder) as fleet:
        async with Client.connect(settings) as client:
            driver = _Driver(client, folder)
            await client.submit("timer", f"{kind}-warm", 0.1)
            await client.result(f"{kind}-warm", _PATIENCE_S)
            undisturbed = [await driver.one(waits, number, None) for number in range(calm)]
            room = asyncio.Semaphore(_AT_ONCE)

            async def killed(number: int) -> _Asked | None:
                for attempt in range(3):
                    async with room:
                        one = await driver.one(waits, number + attempt * _ANOTHER, POINTS[number % len(POINTS)])
                    if one is not None:
                        return one
                waits.faults.append(f"no worker came to the point {POINTS[number % len(POINTS)]}: nothing is proven")
                return None

            replacing = asyncio.create_task(replace_dead(fleet))
            try:
                disturbed = await asyncio.gather(*(killed(number) for number in range(calm, calm + kills)))
            finally:
                replacing.cancel()
            waits.faults += await until_quiet(client)
    _judge(settings, folder, waits, [one for one in (*undisturbed, *disturbed) if one is not None])
    return waits


@contextmanager
def waiting_workers(settings: Settings, folder: Path, count: int = 3, **environ: str) -> Iterator[WorkerFleet]:
    """Start workers that die where a file in the folder says so."""
    program = [str(Path(__file__).with_name("waiting_worker.py")), str(folder)]
    fleet = WorkerFleet(settings, folder, program, FLEET_FILE=str(folder / "told.jsonl"), **environ)
    try:
        for _ in range(count):
            fleet.start()
        yield fleet
    finally:
        fleet.end()


async def replace_dead(fleet: WorkerFleet) -> None:
    """Start a worker for each one that died, until cancelled."""
    while True:
        fleet.replace_dead()
        await asyncio.sleep(0.2)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # a file gives no event
            await asyncio.sleep(0.02)


def told(file: Path) -> list[dict[str, Any]]:
    """Return what the agents told the file so far."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def dead_in(folder: Path) -> set[int]:
    """Return the ids of the workers' programs that killed themselves."""
    return {int(file.suffix.rpartition("-")[2]) for file in folder.glob("*.killed-*")}


# --- the judge
@dataclass
class History:
    """What the journal has of one process, by the judge's own reading."""

    epoch: int = 0
    acted_at: list[float] = field(default_factory=list)
    due_at: float = 0.0
    began_at: float = 0.0
    """When the first claim of it was made."""
    finished_at: float = 0.0


def _judge(settings: Settings, folder: Path, waits: Waits, asked: list[_Asked]) -> None:
    """Each process acted once in the log, its step was not repeated, and how late it was."""
    histories = read(settings, _ACTS[waits.kind])
    by = defaultdict[tuple[str, str], list[int]](list)
    for line in told(folder / "told.jsonl"):
        by[line["what"], line["id"]].append(line["by"])
    dead = dead_in(folder)
    for one in asked:
        found, acts = histories[one.process_id], by["acted", one.process_id]
        if len(found.acted_at) != 1:
            waits.faults.append(f"{one.process_id} acted {len(found.acted_at)} times")
        if not acts or len(set(acts)) < len(acts) or not dead.issuperset(acts[:-1]):
            waits.faults.append(f"{one.process_id}: its last step was executed by {acts}, killed were {sorted(dead)}")
        if len(by["paid", one.process_id]) > 1:
            waits.faults.append(f"{one.process_id} paid {len(by['paid', one.process_id])} times")
        came_at = one.came_at or found.due_at or histories[f"{one.process_id}.child"].finished_at
        late_s = min(found.acted_at, default=float("inf")) - came_at
        (waits.late_s if one.point is None else waits.late_after_kill_s).append(late_s)


def read(settings: Settings, acts: str) -> dict[str, History]:
    """Return what the journal has of each process. ``acts``: the body by which it acts."""
    found: dict[str, History] = {}
    for partition in range(settings.partitions):
        for message in read_records(settings, partition):
            entry = decode(message.value())
            name, body = entry["body"]
            history = found.setdefault(entry["process_id"], History())
            if name == "seekpoint.Claim" and body["expected_epoch"] == history.epoch:
                history.epoch += 1
                history.began_at = history.began_at or entry["ts"].timestamp()
            elif entry["seq"] is not None and entry["epoch"] == history.epoch:
                _note(history, name.partition(".")[2], body, entry["ts"].timestamp(), acts)
    return found


def _note(history: History, name: str, body: dict[str, Any], at: float, acts: str) -> None:
    if name == acts and body.get("outcome") != "unknown":
        history.acted_at.append(at)
    elif name == "Finished":
        history.finished_at = at
    elif name == "TimerSet":
        history.due_at = body["fires_at_us"] / 1e6
    elif name == "GateOpened" and body["deadline_us"] is not None:
        history.due_at = body["deadline_us"] / 1e6
