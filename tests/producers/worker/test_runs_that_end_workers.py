"""Runs that end the program of their worker: the others go on, and the run is parked (invariant I18)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seekpoint.producers import Client
from seekpoint.schemas.errors import RunFailed
from seekpoint.schemas.state.process_state import State

PILL = """
import asyncio, os, sys
from seekpoint import agent

def crash(): os._exit(9)

async def crash_in_the_loop():
    await asyncio.sleep(0.01)
    os._exit(9)

async def spawn_an_exit():
    async def leave(): sys.exit(3)
    task = asyncio.create_task(leave())
    await asyncio.sleep(60)

async def ignore_an_exit():
    async def leave(): sys.exit(3)
    asyncio.get_running_loop().call_soon(sys.exit, 4)
    await asyncio.sleep(60)

@agent("pill")
async def pill(process, how):
    if how == "code":
        os._exit(9)
    return await process.step("tool", globals()[how])

@agent("fine")
async def fine(process, seconds):
    await process.step("first", str, 1)
    await process.step("slow", asyncio.sleep, seconds)
    return "done"
"""
PROGRAM = [sys.executable, "-c", "import sys; from seekpoint.console.cli import main; sys.exit(main())"]


class Programs:
    """Workers as programs of their own, on one file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[subprocess.Popen[bytes]]()
        (folder / "pill.py").write_text(PILL)
        self.url = f"sqlite:///{folder}/runs.db"
        self.client_path = folder / "runs.db"
        self.log = folder / "said.txt"

    def start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SEEKPOINT_JOURNAL_URL": self.url}
        with self.log.open("ab") as said:
            started = subprocess.Popen([*PROGRAM, "worker", "pill"], cwd=self.folder, env=environment, stderr=said)
        self.workers.append(started)
        return started

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return found

    def stop(self) -> None:
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    async def submit(self, agent: str, process_id: str, given: Any) -> None:
        async with Client.local(self.client_path) as client:
            await client.submit(agent, process_id, given)

    async def state(self, process_id: str) -> State:
        async with Client.local(self.client_path) as client:
            return (await client.recover(process_id, missing_ok=True)).state


@pytest.fixture
def programs(tmp_path: Path) -> Any:
    made = Programs(tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize("how", ["crash", "crash_in_the_loop", "code"])
def test_a_run_that_ends_its_program_is_parked_after_three_deaths(programs: Programs, how: str) -> None:
    """The fourth worker lives, names the call, and ends the run beside it. A redrive lets it go on."""
    asyncio.run(programs.submit("pill", "bad", how))
    for _ in range(3):
        worker = programs.start()
        assert programs.until(worker.poll) == 9
    fourth = programs.start()
    asyncio.run(programs.submit("fine", "good", 0))
    programs.until(lambda: asyncio.run(programs.state("good")).finished)
    programs.until(lambda: asyncio.run(programs.state("bad")).lifecycle == "failed")
    assert fourth.poll() is None
    state = asyncio.run(programs.state("bad"))
    assert state.failure is not None
    assert state.failure.type.endswith("OwnersDied")
    assert state.owner_deaths == 0
    if how != "code":
        assert "key=tool:1" in state.failure.message

    async def redrive() -> None:
        async with Client.local(programs.client_path) as client:
            with pytest.raises(RunFailed, match="OwnersDied"):
                await client.result("bad", 5)
            await client.redrive("bad")

    asyncio.run(redrive())
    assert programs.until(fourth.poll) == 9
    assert "bad" in programs.log.read_text()


@pytest.mark.parametrize("how", ["spawn_an_exit", "ignore_an_exit"])
def test_an_exit_in_a_task_or_callback_of_a_body_fails_its_run(programs: Programs, how: str) -> None:
    """It leaves the event loop, which the worker enters again. The run beside it goes on."""
    worker = programs.start()
    asyncio.run(programs.submit("fine", "good", 2))
    asyncio.run(programs.submit("pill", "bad", how))
    programs.until(lambda: asyncio.run(programs.state("bad")).lifecycle == "failed")
    state = asyncio.run(programs.state("bad"))
    assert state.failure is not None
    assert "the code raised SystemExit" in state.failure.message
    programs.until(lambda: asyncio.run(programs.state("good")).finished)
    assert worker.poll() is None
    assert asyncio.run(programs.state("good")).epoch == 1
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
