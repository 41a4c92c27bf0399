"""The service behind ``seekpoint worker``: its agents, and the signals that stop it."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from agent_programs import environment
from health_pages import get
from seekpoint.console.services.daemons import worker_service
from seekpoint.console.services.daemons.worker_service import WorkerService, agents_in, limits_of
from seekpoint.producers import Client, Process, Worker, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings


@agent("hangs")
async def hangs(process: Process, input: Any) -> None:
    await process.step("hang", asyncio.sleep, 3600)


@agent("a=b")
async def other(process: Process, input: Any) -> None:
    return None


def test_limits_have_names_with_any_character() -> None:
    """The number stands behind the last equals sign. A name that no agent has is refused."""
    assert limits_of(["hangs=5", "a=b=2"], [hangs, other]) == {"hangs": 5, "a=b": 2}
    with pytest.raises(typer.BadParameter, match="no agent here is called 'triage': there are hangs"):
        limits_of(["triage=2"], [hangs])


def test_two_agents_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could tell which of them a submission means."""
    twin = agent("hangs")(other.run)
    found = {"one:hangs": hangs, "two:hangs": twin}
    monkeypatch.setattr(worker_service, "import_object", lambda name, *_: found[name])
    with pytest.raises(typer.BadParameter, match="two agents are called 'hangs'"):
        agents_in(list(found))


@asynccontextmanager
async def serving(
    log: MemoryLog, drain_s: float = 60.0
) -> AsyncIterator[tuple[WorkerService, Worker, asyncio.Task[None]]]:
    """A service in this program that has joined, and that signals reach."""
    worker = Worker.in_memory([hangs], log, drain_s=drain_s)
    service = WorkerService(worker, drain_s)
    running = asyncio.create_task(service.run("127.0.0.1", None))
    try:
        await _until(lambda: bool(worker.polls and worker.assigned))
        yield service, worker, running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _until(is_so: Any, timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110  # what a worker does sets no event
            await asyncio.sleep(0.01)


async def _begin_run(log: MemoryLog, worker: Worker) -> None:
    async with Client.in_memory(log) as client:
        await client.submit(hangs, "case-1")
        await _until(lambda: "case-1" in worker.running)


async def test_a_signal_ends_an_idle_worker(capsys: pytest.CaptureFixture[str]) -> None:
    """It says that it has joined, that it drains, and what it did."""
    async with serving(MemoryLog(partitions=2)) as (service, worker, running):
        await asyncio.sleep(0.5)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running, 20)
    lines = capsys.readouterr().err.splitlines()
    assert f"node {worker.node.node_id} runs hangs for 2 partitions of journal" in lines[0]
    assert lines[0].endswith("group workers; Ctrl-C stops it")
    assert lines[1:] == ["draining: no run is under way", "stopped; 0 runs finished, 0 failed"]
    assert not service.is_cut_off


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_releases_the_runs(second: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Without it the drain would take a minute."""
    log = MemoryLog(partitions=2)
    async with serving(log) as (service, worker, running):
        await _begin_run(log, worker)
        signal.raise_signal(signal.SIGTERM)
        await _until(lambda: worker.status().draining)
        await asyncio.sleep(0.6)
        assert not running.done()
        signal.raise_signal(second)
        await asyncio.wait_for(running, 20)
    told = capsys.readouterr().err
    assert "draining: 1 run under way; a second signal releases them" in told
    assert "releasing 1 run" in told
    assert service.is_cut_off


async def test_a_drain_that_takes_too_long_releases_the_runs() -> None:
    """The program then ends although a plain function may still run in its thread."""
    log = MemoryLog(partitions=2)
    async with serving(log, drain_s=0.2) as (service, worker, running):
        await _begin_run(log, worker)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running, 20)
    assert service.is_cut_off


async def test_the_error_of_the_worker_ends_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command then exits with the code of the error."""
    async with serving(MemoryLog(partitions=2)) as (_, worker, running):

        def broken(timeout_s: float) -> Any:
            raise RuntimeError("the inbox is gone")

        monkeypatch.setattr(worker._member, "poll", broken)
        with pytest.raises(RuntimeError, match="the inbox is gone"):
            await asyncio.wait_for(running, 20)


async def test_a_worker_without_a_partition_says_that_it_has_joined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There may be more workers than partitions."""
    monkeypatch.setattr(worker_service, "_ASSIGNMENT_S", 0.1)
    log = MemoryLog(partitions=1)
    async with Worker.in_memory([hangs], log):
        service = WorkerService(Worker.in_memory([hangs], log), 1.0)
        running = asyncio.create_task(service.run("127.0.0.1", None))
        told = ""
        async with asyncio.timeout(30):
            while "runs hangs for 0 partitions" not in told:
                told += capsys.readouterr().err
                await asyncio.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running, 20)
        assert "Ctrl-C stops it" in told


SLOW = """
import time
from seekpoint.producers import agent


def sleep():
    print("asleep", flush=True)
    time.sleep(300)


@agent("slow")
async def slow(process, order):
    return await process.step("sleep", sleep)
"""


def _program(settings: Settings, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "shop.py").write_text(SLOW)
    return subprocess.Popen(
        [sys.executable, "-m", "seekpoint.console", "worker", "shop", *arguments],
        cwd=folder, env=environment(settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_signal_ends_a_start_that_kafka_does_not_answer(tmp_path: Path) -> None:
    """At once, as with the other services, and not once the patience with Kafka ends."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        settings = Settings(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", redis_url=None)
        with _program(settings, tmp_path) as program:
            try:
                silent.settimeout(60)
                connection, _ = silent.accept()
                time.sleep(0.5)
                program.send_signal(signal.SIGTERM)
                began = time.monotonic()
                _, told = program.communicate(timeout=60)
                connection.close()
            finally:
                program.kill()
    assert (program.returncode, "Traceback" in told) == (0, False), told
    assert time.monotonic() - began < 10, told


@pytest.mark.cluster
async def test_a_second_signal_ends_the_program_although_a_thread_works(journal: Settings, tmp_path: Path) -> None:
    """A plain function cannot be cancelled; the program ends anyhow, and the process is released."""
    with _program(journal, tmp_path) as program:
        try:
            async with Client.connect(journal) as client:
                await client.submit("slow", "case-1")
                assert program.stdout is not None
                assert await asyncio.to_thread(program.stdout.readline) == "asleep\n"
                program.send_signal(signal.SIGTERM)
                await asyncio.sleep(1.0)
                assert program.poll() is None
                program.send_signal(signal.SIGTERM)
                _, told = await asyncio.to_thread(program.communicate, timeout=60)
                assert program.returncode == 0, told
                assert "releasing 1 run" in told
                assert (await client.state("case-1")).owner is None
        finally:
            program.kill()


@pytest.mark.cluster
async def test_a_program_answers_probes_until_it_ends(journal: Settings, tmp_path: Path) -> None:
    """Ready once it has its partitions, alive but not ready while it drains; the metrics count the run."""
    with _program(journal, tmp_path, "--health-port", "0") as program:
        try:
            assert program.stderr is not None
            told = await asyncio.to_thread(program.stderr.readline)
            port = int(told.split("/healthz")[0].rpartition(":")[2])
            await _answers(port, "/readyz", 200)
            async with Client.connect(journal) as client:
                await client.submit("slow", "case-1")
                assert program.stdout is not None
                assert await asyncio.to_thread(program.stdout.readline) == "asleep\n"
            await _answers(port, "/metrics", 200, "seekpoint_worker_runs_started_total 1.0")
            program.send_signal(signal.SIGTERM)
            await _answers(port, "/readyz", 503, "it drains")
            await _answers(port, "/livez", 200)
        finally:
            program.kill()


async def _answers(port: int, page: str, code: int, text: str = "") -> None:
    """Wait until a page answers with a code and a text."""
    found: tuple[int, str] = (0, "")
    async with asyncio.timeout(60):
        while found[0] != code or text not in found[1]:
            found = await asyncio.to_thread(get, port, page)
            await asyncio.sleep(0.05)
