"""The health of a worker turns red where a part of it makes no progress, and its metrics count what it does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from health_pages import get
from seekpoint.consumers.heartbeats.health_port import HealthPort
from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S
from seekpoint.producers import Client, Process, Worker, agent
from seekpoint.producers.health.worker_health import WorkerHealth, worker_families
from seekpoint.producers.worker import submission_intake
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.memory_log import MemoryTail

TOO_LONG_S = STALL_MAX_S + 1.0


@agent("ask")
async def ask(process: Process, question: str) -> str:
    await process.step("prepare", lambda: None)
    return (await process.gate("approve", prompt=question)).outcome


@agent("hangs")
async def hangs(process: Process, input: Any) -> None:
    await process.step("hang", asyncio.sleep, 3600)


@agent("fails")
async def fails(process: Process, input: Any) -> None:
    raise ValueError("no money")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


class Watched:
    """A worker with its health, whose clock a test moves."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.clock = Clock()
        self.health = WorkerHealth(worker, clock=self.clock)

    async def look_until(self, is_so: Callable[[], bool]) -> None:
        """Look again and again, as the service does, until something is so."""
        async with asyncio.timeout(30):
            while not is_so():
                self.health.look()
                await asyncio.sleep(0.01)

    async def after(self, seconds: float) -> bool:
        """Whether the worker is well after it was watched for so long."""
        for _ in range(4):
            self.clock.now_s += seconds / 4
            await asyncio.sleep(0.15)  # longer than a poll of the inbox
            self.health.look()
        return self.health.is_well


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inbox that is read several times between two looks."""
    monkeypatch.setattr(submission_intake, "_QUIET_S", 0.1)


@asynccontextmanager
async def working(log: MemoryLog, **options: Any) -> AsyncIterator[Watched]:
    async with Worker.in_memory([ask, hangs, fails], log, grace_s=0.1, drain_s=0.1, **options) as worker:
        watched = Watched(worker)
        await watched.look_until(lambda: watched.health.not_ready is None)
        yield watched


def probe(health: Any, page: str) -> tuple[int, Any]:
    """The code and the answer of a page of the health port."""
    with HealthPort("127.0.0.1", 0, health, lambda: ()) as served:
        code, text = get(served.port, page)
        return code, json.loads(text)


def test_the_probes_answer_by_the_health() -> None:
    """Alive is another question than ready; both give their reasons."""
    health = SimpleNamespace(is_well=True, lag=2, stalled_s=0.5, not_ready="it drains", parts={"tail": 0.5})
    assert probe(health, "/livez") == (200, {"ok": True, "lag": 2, "stalled_s": 0.5, "parts": {"tail": 0.5}})
    assert probe(health, "/readyz") == (503, {"ok": False, "reason": "it drains"})
    health.is_well, health.not_ready = False, None
    assert probe(health, "/livez")[0] == probe(health, "/healthz")[0] == 503
    assert probe(health, "/readyz") == (200, {"ok": True})


async def test_a_worker_is_well_however_long_its_runs_take(log: MemoryLog) -> None:
    """Its loop, its inbox and its tails go on meanwhile."""
    async with working(log) as watched, Client.in_memory(log) as client:
        await client.submit(hangs, "case-1")
        await watched.look_until(lambda: "case-1" in watched.worker.running)
        assert await watched.after(TOO_LONG_S)


async def test_a_loop_that_stands_still_is_noticed(log: MemoryLog) -> None:
    """The port has a thread of its own, and nobody looks."""
    async with working(log) as watched:
        watched.clock.now_s += TOO_LONG_S
        code, answer = await asyncio.to_thread(probe, watched.health, "/livez")
        assert (code, answer["parts"]["loop"]) == (503, TOO_LONG_S)


async def test_an_inbox_that_is_not_read_is_noticed(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that does not return. Once it returns the worker is well again."""
    async with working(log) as watched:
        is_stuck, goes_on = threading.Event(), threading.Event()
        member = watched.worker._member
        assert member is not None
        poll = member.poll

        def stuck(timeout_s: float) -> Any:
            is_stuck.set()
            goes_on.wait(60)
            return poll(timeout_s)

        monkeypatch.setattr(member, "poll", stuck)
        assert await asyncio.to_thread(is_stuck.wait, 10)
        await asyncio.sleep(0.2)
        watched.health.look()
        assert not await watched.after(TOO_LONG_S)
        assert watched.health.not_ready == "no progress: inbox"
        goes_on.set()
        assert await watched.after(TOO_LONG_S)


async def test_an_inbox_that_kafka_does_not_serve_is_no_stall(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither reads that Kafka refuses, nor submissions that it acknowledges late: a restart would not help."""
    async with working(log) as watched, Client.in_memory(log) as client:
        member = watched.worker._member
        assert member is not None
        monkeypatch.setattr("seekpoint.producers.worker.submission_intake._AGAIN_S", 0.01)
        with monkeypatch.context() as patched:

            def silent(timeout_s: float) -> Any:
                raise JournalUnavailable("Kafka does not answer")

            patched.setattr(member, "poll", silent)
            await asyncio.sleep(0.2)
            watched.health.look()
            assert await watched.after(TOO_LONG_S)
        log.drop_acknowledgements()  # of the journal: the inbox takes the submission
        await client.submit(ask, "case-1", "refund?")
        await watched.look_until(lambda: watched.health.seen.is_writing)
        assert await watched.after(TOO_LONG_S)
        log.heal()


async def test_a_tail_whose_thread_ended_is_noticed(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error ends it without a word to anybody else."""
    async with working(log) as watched:

        def broken(self: MemoryTail, timeout_s: float) -> Any:
            raise RuntimeError("a defect")

        monkeypatch.setattr(MemoryTail, "poll", broken)
        thread = watched.worker._runtime.tailer._follower._thread
        assert thread is not None
        await asyncio.to_thread(thread.join, 10)
        watched.health.look()
        assert not await watched.after(TOO_LONG_S)
        assert watched.health.not_ready == "no progress: tail"


async def test_a_tail_that_stays_behind_is_noticed(log: MemoryLog) -> None:
    """Its thread polls on, but delivers nothing."""
    async with working(log) as watched:
        for health in watched.worker._duty._tails.values():
            health._clock = watched.clock
            health.progress()
        watched.worker._tasks[-1].cancel()  # which looks at the tails
        assert not await watched.after(TOO_LONG_S)
        assert watched.health.parts["tail"] == TOO_LONG_S


async def test_a_worker_is_ready_once_it_knows_its_partitions(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before the group assigned them, not before their unfinished processes are known, and not while it drains."""
    worker = Worker.in_memory([ask, hangs], log, drain_s=60.0)
    watched = Watched(worker)
    health = watched.health
    assert await asyncio.to_thread(probe, health, "/readyz") == (
        503, {"ok": False, "reason": "its group has not assigned partitions yet"}
    )  # fmt: skip
    assert health.is_well
    known = threading.Event()
    recover = worker._runtime.recovery.blocking.recover_partition
    monkeypatch.setattr(
        worker._runtime.recovery.blocking,
        "recover_partition",
        lambda *given, **options: (known.wait(60), recover(*given, **options))[1],
    )
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    async with Client.in_memory(log) as client:
        await watched.look_until(lambda: health.seen.is_joined)
        assert worker.assigned
        assert health.not_ready == "it reads the unfinished processes of its partitions"
        known.set()
        await watched.look_until(lambda: health.not_ready is None)
        assert await asyncio.to_thread(probe, health, "/readyz") == (200, {"ok": True})
        await client.submit(hangs, "case-1")
        await watched.look_until(lambda: "case-1" in worker.running)
        stop.set()
        await watched.look_until(lambda: health.seen.is_draining)
        assert await asyncio.to_thread(probe, health, "/readyz") == (503, {"ok": False, "reason": "it drains"})
        assert await watched.after(TOO_LONG_S), "a drain reads no inbox, and ends by itself"
        worker.end_drain()
        await running


async def test_a_worker_that_the_others_leave_no_partition_is_ready(log: MemoryLog) -> None:
    """Else the spare worker of a deployment would hold up its roll-out."""
    async with working(log), working(log), working(log) as spare:
        assert not spare.worker.assigned


async def test_the_metrics_count_runs_calls_and_recoveries(log: MemoryLog) -> None:
    """A run that waited is resumed; a failed one is counted as such; each attempt of a step is timed."""
    async with working(log) as watched, Client.in_memory(log) as client:
        run = await client.submit(ask, "case-1", "refund?")
        await watched.look_until(lambda: "case-1" in watched.worker.waiting)
        assert figures(watched)["seekpoint_worker_waiting"] == 1
        await client.approve("case-1", "approve")
        assert await run.result(30) == "approved"
        await client.submit(fails, "case-2")
        await watched.look_until(lambda: watched.worker.failed == watched.worker.finished == 1)
        found = figures(watched)
    assert found["seekpoint_worker_submissions_total"] == 2
    assert found["seekpoint_worker_runs_started_total"] == 2
    assert found["seekpoint_worker_runs_resumed_total"] == 1
    assert found['seekpoint_worker_runs_total{outcome="finished"}'] == 1
    assert found['seekpoint_worker_runs_total{outcome="failed"}'] == 1
    assert found['seekpoint_worker_step_seconds_count{kind="step"}'] == 1
    assert found['seekpoint_worker_step_seconds_bucket{kind="step",le="+Inf"}'] == 1
    assert found["seekpoint_worker_append_seconds_count"] > 6
    assert found["seekpoint_worker_confirm_seconds_count"] >= 2
    assert found['seekpoint_worker_recoveries_total{tier="scan"}'] >= 1
    assert found["seekpoint_worker_partitions"] == 2
    assert found["seekpoint_worker_fenced_entries_total"] == 0


async def test_the_age_of_the_queue_is_that_of_the_oldest_process(log: MemoryLog) -> None:
    """It rises while there is no room."""
    async with working(log, runs_max=1) as watched, Client.in_memory(log) as client:
        await client.submit(hangs, "case-1")
        await watched.look_until(lambda: bool(watched.worker.running))
        await client.submit(hangs, "case-2")
        await watched.look_until(lambda: len(watched.worker.ready) == 1 and watched.worker.queue_age_s > 0.05)
        assert figures(watched)["seekpoint_worker_queue_age_seconds"] > 0.05


def figures(watched: Watched) -> dict[str, float]:
    """The samples of the metrics page, by name and labels."""
    watched.health.look()
    health = watched.health
    with HealthPort("127.0.0.1", 0, health, lambda: worker_families(health)) as served:
        return dict(_samples(get(served.port, "/metrics")[1]))


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            yield sample.name + (f"{{{labels}}}" if labels else ""), sample.value
