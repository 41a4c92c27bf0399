"""Scheduled runs: each firing is submitted once, whoever dies between noticing, submitting and noting it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lost_workers import vanish
from seekpoint.producers import Agent, Client, Process, VirtualClock, Worker, agent
from seekpoint.producers.durable.call_results import Versioned
from seekpoint.producers.durable.steps.cron_schedules import Schedule, firing_id
from seekpoint.producers.runs.schedule_table import ScheduleTable
from seekpoint.producers.worker.scheduler import Scheduler, scheduled_run
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Refused, VersionConflict
from seekpoint.schemas.log.submissions import SubmissionRecord
from seekpoint.schemas.values.json_values import load

START = datetime(2026, 11, 23, 6, 59, 30, tzinfo=UTC)
ROUND_S = 10.0


def made(name: str, cron: str, missed: str = "once", timezone: str = "UTC") -> Agent:
    @agent(name, schedule=cron, missed=missed, timezone=timezone)
    async def run(process: Process, moment: str) -> str:
        return await process.step("say", f"at {moment}".format)

    return run


def us_of(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


class Killed(Exception):
    """The worker is gone at this point."""


class Journal:
    """The inbox and the shared value of a journal, and the moment. ``dies``: where the worker that looks is killed."""

    def __init__(self) -> None:
        self.now = START
        self.sent: list[SubmissionRecord] = []
        self.value: Any = None
        self.version = 0
        self.dies = ""
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    name = "seekpoint.schedules"

    def scheduler(self, *agents: Agent) -> Scheduler:
        schedules = {one.name: one.schedule for one in agents if one.schedule is not None}
        return Scheduler(schedules, self, self.submit, lambda: us_of(self.now))  # type: ignore[arg-type]

    async def get(self) -> Versioned:
        return Versioned(self.value, self.version)

    async def set_text(self, text: str, expected_version: int, actor: str | None, set_id: bytes | None) -> int:
        self._maybe_die("before noting")
        if expected_version != self.version:
            raise VersionConflict("another setting came first", name=self.name, version=self.version)
        self.value, self.version = load(text), self.version + 1
        self._maybe_die("after noting")
        return self.version

    async def submit(self, record: SubmissionRecord) -> None:
        if self.meanwhile is not None:
            other, self.meanwhile = self.meanwhile, None
            await other()
        self._maybe_die("before submitting")
        self.sent.append(record)
        self._maybe_die("after submitting")

    def _maybe_die(self, where: str) -> None:
        if self.dies == where:
            self.dies = ""
            raise Killed

    @property
    def runs(self) -> list[str]:
        """The runs that the submissions lead to: an id that was submitted again is the same run."""
        inputs: dict[str, str] = {}
        for one in self.sent:
            assert inputs.setdefault(one.process_id, one.input) == one.input
        assert len({one.id for one in self.sent}) == len(inputs)
        return sorted(inputs)


def wanted(name: str, cron: str, until: datetime) -> list[str]:
    return [firing_id(name, one) for one in Schedule(cron).firings(START, until)]


POINTS = st.sampled_from(
    ["", "before submitting", "after submitting", "before noting", "after noting", "another looks"]
)


@given(
    st.lists(st.tuples(st.floats(0.1, 45.0), POINTS), min_size=5, max_size=40), st.sampled_from(["skip", "once", "all"])
)
def test_each_firing_is_submitted_once_whoever_is_killed_where(steps: list[tuple[float, str]], missed: str) -> None:
    """A new worker looks right after each kill, or together with the one that still looks."""
    agents = [made("minutely", "* * * * *", missed), made("odd", "1-59/2 * * * *", missed)]

    async def simulated() -> None:
        journal = Journal()
        leader = journal.scheduler(*agents)
        await leader.look()
        for seconds, point in steps:
            journal.now += timedelta(seconds=seconds)
            if point == "another looks":
                journal.meanwhile = journal.scheduler(*agents).look
            else:
                journal.dies = point
            try:
                await leader.look()
            except Killed:
                leader = journal.scheduler(*agents)
                await leader.look()
            journal.dies, journal.meanwhile = "", None
        await leader.look()
        until = journal.now
        assert journal.runs == sorted(wanted("minutely", "* * * * *", until) + wanted("odd", "1-59/2 * * * *", until))

    asyncio.run(simulated())


@pytest.mark.parametrize(("missed", "count"), [("skip", 1), ("once", 2), ("all", 121)])
async def test_firings_that_nobody_noticed_follow_the_policy(missed: str, count: int) -> None:
    """After two hours without a worker; with many of them, the next look goes on."""
    journal, report = Journal(), made("report", "* * * * *", missed)
    await journal.scheduler(report).look()
    journal.now += timedelta(hours=2, seconds=35)
    leader = journal.scheduler(report)
    for _ in range(3):
        await leader.look()
    assert len(journal.runs) == count
    assert firing_id("report", journal.now.replace(second=0)) in journal.runs


async def test_a_paused_schedule_does_not_fire_and_goes_on_without_the_firings_of_the_pause() -> None:
    """Whatever its policy."""
    journal, report = Journal(), made("report", "0 * * * *", "all")
    leader = journal.scheduler(report)
    await leader.look()
    journal.value, journal.version = ScheduleTable.of(journal.value).with_paused("report", "ann").value(), 2
    journal.now += timedelta(hours=3)
    await leader.look()
    assert journal.runs == []
    journal.value, journal.version = ScheduleTable.of(journal.value).with_resumed("report", journal.now).value(), 3
    journal.now += timedelta(hours=1)
    await leader.look()
    assert journal.runs == [firing_id("report", datetime(2026, 11, 23, 10, tzinfo=UTC))]


async def test_two_rules_of_one_agent_do_not_disturb_each_other() -> None:
    """As while old and new code run side by side; a rule that nobody has any more is dropped in the end."""
    journal = Journal()
    old, new = journal.scheduler(made("report", "0 * * * *")), journal.scheduler(made("report", "30 * * * *"))
    for minutes in range(0, 130, 10):
        journal.now = START + timedelta(minutes=minutes, seconds=45)
        await old.look()
        await new.look()
    hours = [f"report@2026-11-23T0{hour}:{minute}:00Z" for hour in (7, 8) for minute in ("00", "30")]
    assert journal.runs == [one for one in [*hours, "report@2026-11-23T09:00:00Z"] if one in journal.runs]
    assert len(ScheduleTable.of(journal.value).rows) == 2
    journal.now += timedelta(days=40)
    await new.look()
    assert [row.schedule.cron for row in ScheduleTable.of(journal.value).rows] == ["30 * * * *"]


async def test_a_look_between_two_firings_reads_nothing() -> None:
    """An idle fleet costs nothing."""
    journal, reads = Journal(), 0
    leader = journal.scheduler(made("report", "0 * * * *"))
    await leader.look()
    get = journal.get

    async def counted() -> Versioned:
        nonlocal reads
        reads += 1
        return await get()

    journal.get = counted  # type: ignore[method-assign]
    for _ in range(100):
        journal.now += timedelta(seconds=0.25)
        await leader.look()
    assert reads == 0
    journal.now = datetime(2026, 11, 23, 7, 0, 1, tzinfo=UTC)
    await leader.look()
    assert (reads, len(journal.runs)) == (1, 1)


def test_the_submission_of_a_firing_is_the_same_whoever_makes_it() -> None:
    """So that the second one is the same run."""
    assert scheduled_run("report", START) == scheduled_run("report", START)


def until_true(condition: Callable[[], Any]) -> Awaitable[None]:
    async def waited() -> None:
        async with asyncio.timeout(ROUND_S):
            while not condition():  # noqa: ASYNC110  # workers give no event for what they know
                await asyncio.sleep(0.02)

    return waited()


async def test_the_leader_fires_and_after_its_death_another_worker() -> None:
    """The run gets its moment as the input; clients pause, resume, trigger and list schedules."""
    log, report = MemoryLog(), made("report", "0 * * * *")
    clock = VirtualClock(us_of(START), skips=False)
    async with Client.in_memory(log) as client:
        one = await Worker.in_memory([report], log, clock=clock).start()
        two = await Worker.in_memory([report], log, clock=clock).start()
        await until_true(lambda: one._scheduler._next is not None or two._scheduler._next is not None)
        clock.advance(31)
        assert await client.result("report@2026-11-23T07:00:00Z", ROUND_S) == "at 2026-11-23T07:00:00Z"
        leader = next(each for each in (one, two) if each._scheduler.submitted)
        assert one._scheduler.submitted + two._scheduler.submitted == 1
        await vanish(leader)
        clock.advance(3600)
        assert await client.result("report@2026-11-23T08:00:00Z", ROUND_S) == "at 2026-11-23T08:00:00Z"
        await client.pause_schedule("report", actor="ann")
        (status,) = await client.schedules()
        assert (status.agent, status.paused_by, status.next) == ("report", "ann", None)
        await client.resume_schedule(report)
        (status,) = await client.schedules()
        assert status.paused_by is None
        run = await client.trigger_schedule(report, actor="ann")
        assert await run.result(ROUND_S) == f"at {run.id.partition('@')[2]}"
        with pytest.raises(Refused, match="no schedule"):
            await client.trigger_schedule("other")
        await (two if leader is one else one).close()
