"""Workers that are killed at random moments while a client waits for all runs, and the judge of what they did (I8)."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_programs import environment
from ledger_run import Judged, judge, ledger_server
from quiet_log import until_quiet
from seekpoint.producers import Client
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import ResultTimeout

__all__ = ["WorkerFleet", "conduct_fleet", "ended", "fleet_of", "ledger_lines"]

_HERE = Path(__file__).parent


class WorkerFleet:
    """Worker programs: ``program`` with its arguments. Each start is a life with a number of its own."""

    def __init__(self, settings: Settings, folder: Path, program: Sequence[str], **environ: str) -> None:
        self._settings, self._folder, self._program, self._environ = settings, folder, program, environ
        self.lives: dict[int, subprocess.Popen[bytes]] = {}
        """The workers that live, by the numbers of their lives."""
        self.started = 0

    def environ(self) -> dict[str, str]:
        """Return the environment of the workers."""
        return environment(self._settings) | self._environ

    def start(self) -> int:
        """Start a worker; return the number of its life."""
        self.started += 1
        environ = self.environ() | {"AGENT_LIFE": str(self.started)}
        with (self._folder / "agents.log").open("ab") as log:
            self.lives[self.started] = subprocess.Popen(
                [sys.executable, *self._program], env=environ, stdout=log, stderr=log
            )
        return self.started

    def replace_dead(self) -> int:
        """Start a worker for each one that has ended by itself; return how many these were."""
        dead = [life for life, worker in self.lives.items() if worker.poll() is not None]
        for life in dead:
            del self.lives[life]
            self.start()
        return len(dead)

    def wait_assigned(self, timeout_s: float = 60.0) -> None:
        """Return once the workers that live look after all partitions, each after some of its own."""
        deadline = time.monotonic() + timeout_s
        while not self._is_assigned():
            assert time.monotonic() < deadline, f"the partitions are not assigned: {self._assigned()}"
            time.sleep(0.05)

    def _is_assigned(self) -> bool:
        shares = self._assigned()
        return all(shares.get(life) for life in self.lives) and sorted(
            partition for life in self.lives for partition in shares[life]
        ) == [*range(self._settings.partitions)]

    def _assigned(self) -> dict[int, list[int]]:
        """Return the partitions that each worker has told the ledger of."""
        said = ledger_lines(self._folder / "ledger.jsonl")
        told = {one["by"]: one["key"] for one in said if one["what"] == "assigned"}
        return {life: [int(one) for one in key.split(",") if one] for life, key in told.items()}

    def kill(self, life: int) -> None:
        """Kill a worker with SIGKILL."""
        worker = self.lives.pop(life)
        worker.kill()
        worker.wait()

    def drain(self, life: int) -> int:
        """End a worker with SIGTERM; return its exit code."""
        worker = self.lives.pop(life)
        worker.terminate()
        return worker.wait(30)

    def end(self) -> None:
        """Kill all workers."""
        for life in list(self.lives):
            self.kill(life)


@contextmanager
def fleet_of(
    settings: Settings, folder: Path, workers: int, *, call_takes_s: float = 0.5, runs_max: int = 20
) -> Iterator[WorkerFleet]:
    """Start a ledger and so many workers, each with ``runs_max`` runs at once."""
    with ledger_server(folder / "ledger.jsonl") as port:
        program = [str(_HERE / "ledger_worker.py"), str(port)]
        fleet = WorkerFleet(settings, folder, program, CALL_TAKES_S=str(call_takes_s), RUNS_MAX=str(runs_max))
        try:
            for _ in range(workers):
                fleet.start()
            yield fleet
        finally:
            fleet.end()


async def conduct_fleet(
    settings: Settings, folder: Path, runs: int, kills: int, seed: int, deadline_s: float
) -> Judged:
    """Submit ``runs``, kill a random worker ``kills`` times and start another one, and judge what came of it."""
    chance, judged = random.Random(seed), Judged(runs=runs)
    with fleet_of(settings, folder, 3) as fleet:
        async with Client.connect(settings) as client, asyncio.timeout(deadline_s):
            submitted = [await client.submit("ledger", f"run-{number}", number) for number in range(runs)]
            waiting = [asyncio.ensure_future(ended(client, run.id)) for run in submitted]
            await asyncio.to_thread(_until_at_work, folder / "ledger.jsonl")
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.2, 1.0))
                fleet.kill(chance.choice(list(fleet.lives)))
                judged.kills += 1
                fleet.start()
            await asyncio.gather(*waiting)
            judged.faults += await until_quiet(client)
        judged.lives = fleet.started
    judge(settings, folder / "ledger.jsonl", judged)
    return judged


async def ended(client: Client, process_id: str, patience_s: float = 2.0) -> None:
    """Wait for the result. A person decides about an effect of which nobody can tell whether it happened."""
    while True:
        try:
            await client.result(process_id, patience_s)
        except ResultTimeout:
            state = (await client.recover(process_id, missing_ok=True)).state
            for key, call in state.calls.items():
                if call.status == "unknown":
                    await client.verdict(process_id, key, "failed", reason="not there", actor="a person")
        else:
            return


def _until_at_work(ledger: Path) -> None:
    """Return once a worker has done anything."""
    deadline = time.monotonic() + 60
    while all(said["what"] != "call" for said in ledger_lines(ledger)):
        assert time.monotonic() < deadline, "no worker begins to work"
        time.sleep(0.02)


def ledger_lines(ledger: Path) -> list[dict[str, Any]]:
    """Return what the ledger was told so far, in its order."""
    text = ledger.read_text() if ledger.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
