"""The sweep: it wakes a worker for what the worker missed, and finds nothing where the worker did its work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from seekpoint.consumers.heartbeats.heartbeat import from_records
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.process_summary import Summary, is_open_process, summary_of
from seekpoint.consumers.view.view_store import Page, ViewBrowser
from seekpoint.producers import Client, Process, Worker, agent
from seekpoint.producers.client_runtime import ClientRuntime
from seekpoint.producers.sweep import Sweep, overdue
from seekpoint.producers.worker.partition_watch import PartitionWatch
from seekpoint.producers.worker.scheduler import Scheduler
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.submissions import decode_submission
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.values.clock import now_us

HOUR_US = 3_600_000_000


@agent("sleeper")
async def sleeper(process: Process, seconds: float) -> str:
    await process.sleep(seconds)
    return await process.step("wake", lambda: "awake")


@agent("asker")
async def asker(process: Process, _: None) -> str:
    await process.gate("go")
    return "went"


@agent("failer")
async def failer(process: Process, _: None) -> str:
    raise ValueError("no such order")


class LogView:
    """A view that is always up to date: it reads the log."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def page(self, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False) -> Page:
        states = Recoverer(self._log, DeadLetters(self._log, Settings(redis_url=None))).recover_partition(partition)
        rows = [
            summary_of(partition, name.encode(), one.state)
            for name, one in sorted(states.items())
            if is_open_process(name.encode(), one.state) and name.encode() > after
        ]
        return Page(None, tuple(rows[:count]))


def sweep_of(client: Client, log: MemoryLog, at_us: int | None = None) -> Sweep:
    """A sweep whose clock is an hour ahead, or stands at ``at_us``, so that nobody has to wait for its margin."""
    clock_us = (lambda: now_us() + HOUR_US) if at_us is None else (lambda: at_us)
    return Sweep(client, cast(ViewBrowser, LogView(log)), clock_us=clock_us)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def known(log: MemoryLog) -> None:
    """Wait until the heartbeats say that a worker has both partitions."""

    def has_both() -> bool:
        found = from_records(log.table("nodes").items()).values()
        return any(one.worker is not None and one.worker.partitions == (0, 1) for one in found)

    await until(has_both)


def waiting(worker: Worker) -> int:
    return worker.status().waiting


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def test_a_worker_that_does_its_work_leaves_nothing_to_the_sweep(log: MemoryLog) -> None:
    """Neither while a process waits nor when it is over."""
    async with Worker.in_memory([sleeper, asker], log, grace_s=0) as worker, Client.in_memory(log) as client:
        run = await client.submit(sleeper, "s-1", 0.2)
        await client.submit(asker, "a-1")
        await client.submit(sleeper, "s-2", 3 * 3_600)
        assert await run.result(20) == "awake"
        await until(lambda: waiting(worker) == 2)
        await known(log)
        sweep = sweep_of(client, log)
        await sweep.look()
        assert sweep.found == {}
        await client.approve("a-1", "go")
        await client.result("a-1", 20)
        await sweep.look()
        assert sweep.found == {}


async def test_a_moment_that_the_worker_missed_is_found(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker goes on once it is woken; what waits for later is left alone."""
    monkeypatch.setattr(PartitionWatch, "due", lambda self, now_us: [])
    async with Worker.in_memory([sleeper], log, grace_s=0.05) as worker, Client.in_memory(log) as client:
        run = await client.submit(sleeper, "s-1", 3.0)
        await client.submit(sleeper, "s-2", 3 * 3_600)
        await until(lambda: waiting(worker) == 2)
        await asyncio.sleep(3.0)
        sweep = sweep_of(client, log, now_us() + 31_000_000)
        await sweep.look()
        assert await run.result(20) == "awake"
        assert sweep.found == {"moment": 1}
        assert (await client.status("s-2")).stage == "awaiting"


@pytest.mark.parametrize("kind", ["cancel_requested", "submitted"])
async def test_mail_that_the_worker_missed_is_found(log: MemoryLog, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Of a process that waits, and of one that has not begun."""
    note, is_deaf = PartitionWatch._note, kind == "submitted"

    def deaf(self: PartitionWatch, entry: Entry, offset: int) -> None:
        if not (is_deaf and entry.kind == kind and entry.actor != "sweep"):
            note(self, entry, offset)

    monkeypatch.setattr(PartitionWatch, "_note", deaf)
    async with Worker.in_memory([asker], log, grace_s=0.05) as worker, Client.in_memory(log) as client:
        await known(log)
        await client.submit(asker, "a-1")
        if kind == "cancel_requested":
            await until(lambda: waiting(worker) == 1)
            is_deaf = True
            await client.cancel("a-1")
        await until(lambda: any(log.watermarks(at).high for at in range(2)))
        await asyncio.sleep(0.2)
        sweep = sweep_of(client, log)
        await sweep.look()
        assert sweep.found == {"mail": 1}
        expected = "stopped" if kind == "cancel_requested" else "awaiting"
        async with asyncio.timeout(20):
            while (await client.status("a-1")).stage != expected:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", ["cancel_requested", "redrive_requested"])
async def test_a_failed_run_that_somebody_asked_for_is_found(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It needs no worker before, and one afterwards."""
    note = PartitionWatch._note

    def deaf(self: PartitionWatch, entry: Entry, offset: int) -> None:
        if entry.kind != kind:
            note(self, entry, offset)

    monkeypatch.setattr(PartitionWatch, "_note", deaf)
    async with Worker.in_memory([failer], log, grace_s=0.05) as worker, Client.in_memory(log) as client:
        await client.submit(failer, "f-1")
        await until(lambda: worker.failed == 1)
        await known(log)
        sweep = sweep_of(client, log)
        await sweep.look()
        assert sweep.found == {}
        await (client.cancel if kind == "cancel_requested" else client.redrive)("f-1")
        await sweep.look()
        assert sweep.found == {"mail": 1}
        await until(lambda: worker.failed == 2 or worker.cancelled == 1)


@pytest.mark.parametrize("call", ["resume", "redrive"])
async def test_a_request_that_changes_nothing_is_not_late(log: MemoryLog, call: str) -> None:
    """It stays the newest entry of a process that waits, as long as that waits."""
    async with Worker.in_memory([asker], log, grace_s=0.05) as worker, Client.in_memory(log) as client:
        await client.submit(asker, "a-1")
        await until(lambda: waiting(worker) == 1)
        await known(log)
        await client.suspend("a-1")
        await until(lambda: waiting(worker) == 0)
        await client.resume("a-1")
        await until(lambda: waiting(worker) == 1)
        if call == "redrive":
            runs = worker.resumed
            await client.redrive("a-1")
            await until(lambda: worker.resumed > runs and waiting(worker) == 1)
        sweep = sweep_of(client, log)
        await sweep.look()
        assert sweep.found == {}
        kind = "resume_requested" if call == "resume" else "lifecycle_changed"  # which redrives what waits, too
        assert (await client.state("a-1")).last_kind == kind


async def test_without_a_worker_that_could_act_nothing_is_done(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker, one with other code, and one whose runs wait for room: they are not late."""
    async with Client.in_memory(log) as client:
        await client.submit(asker, "a-1")
        await sweep_of(client, log).look()
        async with Worker.in_memory([asker], log, grace_s=0.05) as worker:
            await until(lambda: waiting(worker) == 1)
        await client.cancel("a-1")
        async with Worker.in_memory([sleeper], log):
            await known(log)
            sweep = sweep_of(client, log)
            await sweep.look()
            assert sweep.found == {}
        monkeypatch.setattr(Worker, "_begin_ready", lambda self: None)
        async with Worker.in_memory([asker], log) as full:
            await until(lambda: full.ready)
            full._runtime.heartbeater.publish_soon()
            await asyncio.sleep(0.3)
            sweep = sweep_of(client, log)
            await sweep.look()
            assert sweep.found == {}


async def test_a_firing_that_no_worker_made_is_made_once(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any number of sweeps; without a worker of the agent nobody fires."""
    fired: list[str] = []

    @agent("report", schedule="* * * * *", missed="all")
    async def report(process: Process, moment: str) -> str:
        fired.append(moment)
        return moment

    look = Scheduler.look
    async with Client.in_memory(log) as client:
        async with Worker.in_memory([report], log):
            async with asyncio.timeout(20):
                while not (schedules := await client.schedules()):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        minute = schedules[0].last.replace(second=0)
        late_us = round((minute + timedelta(minutes=3, seconds=45)).timestamp() * 1_000_000)  # three firings later
        sweep = sweep_of(client, log, late_us)
        await sweep.look()
        assert sweep.found == {}

        async def lazy(self: Scheduler) -> None:
            if len(self.schedules) and self._submit.__qualname__.startswith("Sweep"):
                await look(self)

        monkeypatch.setattr(Scheduler, "look", lazy)
        async with Worker.in_memory([report], log):
            await known(log)
            sweeps = [sweep_of(client, log, late_us) for _ in range(3)]
            await asyncio.gather(*(one.look() for one in sweeps))
            await until(lambda: len(fired) >= 3)
            await asyncio.sleep(0.2)
            assert len(fired) == len(set(fired)) == 3
            assert sum(one.found["schedule"] for one in sweeps) >= 1
            again = sweep_of(client, log, late_us)
            await again.look()
            assert again.found == {}


ONE = Summary(
    lifecycle=Lifecycle.AWAITING, offset=5, agent="refund", version="1", waits_for=("timer",), until_us=1_000,
    updated_us=500, last_kind="timer_set",
)  # fmt: skip
SUBMITTED: dict[str, Any] = {"lifecycle": Lifecycle.CREATED, "version": None, "waits_for": (), "until_us": None}


@pytest.mark.parametrize(
    ("changes", "now", "reason"),
    [
        ({}, 1_101, "moment"),
        ({}, 1_100, None),
        ({"owner": b"x" * 16}, 9_999, None),
        ({"finished": True}, 9_999, None),
        ({"on_hold": True}, 9_999, None),
        ({"degraded": "gap"}, 9_999, None),
        ({"agent": None}, 9_999, None),
        ({"until_us": None}, 9_999, None),
        ({"until_us": None, "last_kind": "cancel_requested"}, 601, "mail"),
        ({"until_us": None, "last_kind": "cancel_requested"}, 600, None),
        ({"until_us": 99_999, "last_kind": "effect_verdict", "unsettled": 1}, 9_999, "mail"),
        ({"until_us": 99_999, "last_kind": "effect_verdict"}, 9_999, None),
        ({**SUBMITTED, "last_kind": "submitted"}, 9_999, "mail"),
        ({**SUBMITTED, "last_kind": "submitted", "until_us": 99_999, "waits_for": ("start",)}, 9_999, None),
        ({**SUBMITTED, "last_kind": "resume_requested"}, 9_999, "mail"),
        ({**SUBMITTED, "last_kind": "resume_requested", "until_us": 99_999, "waits_for": ("start",)}, 9_999, None),
        ({**SUBMITTED, "last_kind": "cancel_requested", "until_us": 99_999, "waits_for": ("start",)}, 9_999, "mail"),
        ({"until_us": None, "last_kind": "resume_requested"}, 9_999, None),
        ({"until_us": None, "last_kind": "resume_requested", "lifecycle": Lifecycle.SUSPENDED}, 9_999, "mail"),
        ({"until_us": None, "last_kind": "redrive_requested"}, 9_999, "mail"),
        ({"until_us": None, "last_kind": "signal"}, 9_999, None),
        ({"until_us": None, "lifecycle": Lifecycle.RUNNING}, 9_999, "run"),
        ({"until_us": None, "lifecycle": Lifecycle.RUNNING}, 600, None),
        ({"until_us": None, "lifecycle": Lifecycle.STOPPED, "last_kind": "cancel_requested"}, 9_999, None),
        ({"until_us": None, "lifecycle": Lifecycle.FAILED}, 9_999, None),
        ({"until_us": None, "lifecycle": Lifecycle.FAILED, "last_kind": "redrive_requested"}, 9_999, "mail"),
    ],
)
def test_what_is_overdue(changes: dict[str, Any], now: int, reason: str | None) -> None:
    """Only what a worker should have done by itself, and a margin of 100 ago."""
    assert overdue(replace(ONE, **changes), now, 100) == reason


async def test_a_view_that_is_behind_is_not_believed(log: MemoryLog) -> None:
    """The log says what is late."""
    async with Worker.in_memory([asker], log, grace_s=0.05) as worker, Client.in_memory(log) as client:
        await client.submit(asker, "a-1")
        await until(lambda: waiting(worker) == 1)
        [one] = (one for at in range(2) for one in LogView(log).page(at, b"", b"", 9).summaries)
        old = replace(one, lifecycle=Lifecycle.RUNNING, waits_for=())

        class Behind:
            def page(self, partition: int, *arguments: Any, **options: Any) -> Page:
                return Page(None, (old,) if partition == old.partition else ())

        sweep = Sweep(client, cast(ViewBrowser, Behind()), clock_us=lambda: now_us() + HOUR_US)
        ends = [log.topic("inbox").watermarks(at).high for at in range(2)]
        await sweep.look()
        assert sweep.found == {}
        assert [log.topic("inbox").watermarks(at).high for at in range(2)] == ends


async def test_a_process_that_cannot_be_recovered_hides_no_other_one(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its history may be gone for ever."""
    recover, ids = ClientRuntime.recover, ("a-1", "a-2", "a-3", "a-4")

    async def gone(self: ClientRuntime, process_id: str, **how: Any) -> Any:
        if process_id in ids[:2]:
            raise JournalGap("trimmed", process_id=process_id)
        return await recover(self, process_id, **how)

    async with Worker.in_memory([asker], log, grace_s=0.05) as worker, Client.in_memory(log) as client:
        for each in ids:
            await client.submit(asker, each)
        await until(lambda: waiting(worker) == 4)
        await known(log)
        monkeypatch.setattr(PartitionWatch, "_note", lambda *_: None)
        for each in ids:
            await client.cancel(each)
        monkeypatch.setattr(ClientRuntime, "recover", gone)
        sweep = sweep_of(client, log)
        await sweep.look()
        assert sweep.found == {"mail": 2}


async def test_an_error_ends_one_look(log: MemoryLog) -> None:
    """The next one tries again."""

    class Gone:
        def page(self, *arguments: Any, **options: Any) -> Page:
            from seekpoint.schemas.errors import ViewUnavailable

            raise ViewUnavailable("no view")

    async with Client.in_memory(log) as client:
        sweep = Sweep(client, cast(ViewBrowser, Gone()))
        with suppress(TimeoutError):
            await sweep.look()
        assert sweep.found == {}


class TakenLog:
    """The inbox of a log in memory, of which a group has taken all there is."""

    def __init__(self, log: MemoryLog) -> None:
        self._inbox = log.topic("inbox")

    def ends(self) -> dict[int, int]:
        return {partition: self._inbox.watermarks(partition).high for partition in range(self._inbox.partitions)}

    def read(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        for batch in self._inbox.read(partition, start, stop):
            yield from batch.records


async def test_a_submission_that_a_group_has_passed_over_is_sent_again(log: MemoryLog) -> None:
    """Once, under its own id: what exists, what is young, and a process that was deleted are left alone."""
    async with Client.in_memory(log) as client:
        await client.submit(asker, "passed-over")
        inbox = TakenLog(log)
        young = Sweep(client, cast(ViewBrowser, LogView(log)), inbox=inbox, clock_us=now_us)
        sweep = Sweep(client, cast(ViewBrowser, LogView(log)), inbox=inbox, clock_us=lambda: now_us() + HOUR_US)
        await young.look()
        assert young.found == {}
        await sweep.look()
        await sweep.look()
        assert sweep.found == {"skipped": 1}
        sent = [decode_submission(one.value) for at in range(2) for one in inbox.read(at, 0, inbox.ends()[at])]
        assert [one.process_id for one in sent] == ["passed-over", "passed-over"]
        assert sent[0] == sent[1]
        async with Worker.in_memory([asker], log, grace_s=0.05) as worker:
            await until(lambda: waiting(worker) == 1)
        again = Sweep(client, cast(ViewBrowser, LogView(log)), inbox=inbox, clock_us=lambda: now_us() + HOUR_US)
        await again.look()
        assert again.found["skipped"] == 0
