"""Workers and a client on a real Kafka."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seekpoint.producers import Client, Node, Process, Worker, agent
from seekpoint.producers.durable.steps.cron_schedules import firing_id, moment_text
from seekpoint.producers.runs.schedule_table import TABLE_NAME, ScheduleTable
from seekpoint.schemas.config.settings import Settings

pytestmark = pytest.mark.cluster

WAIT_S = 30.0


@agent("double")
async def double(process: Process, number: int) -> int:
    return await process.step("double", lambda: number * 2)


@agent("ask")
async def ask(process: Process, question: str) -> str:
    answer = await process.gate("approve", prompt=question)
    return answer.outcome


@agent("clerk")
async def clerk(process: Process, order: str) -> str:
    if order == "asks":
        return (await process.gate("approve")).outcome
    return await process.step("work", order.upper)


@agent("office")
async def office(process: Process, orders: list[str]) -> list[str]:
    spawned = [process.spawn(clerk, f"{process.process_id}.{number}", order) for number, order in enumerate(orders)]
    return [await one.result() for one in spawned]


@agent("report", schedule="* * * * *", missed="all")
async def report(process: Process, moment: str) -> str:
    return await process.step("say", f"at {moment}".format)


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # workers give no event for what they know
            await asyncio.sleep(0.02)


async def test_submitted_runs_end_on_two_workers(journal: Settings) -> None:
    """Each once; a run that waited for its approval left memory and came back."""
    async with (
        Client.connect(journal) as client,
        Worker([double, ask], journal, grace_s=0.2) as one,
        Worker([double, ask], journal, grace_s=0.2) as two,
    ):
        await until(lambda: len(one.assigned) == len(two.assigned) == 2)
        runs = [await client.submit(double, f"case-{number}", number) for number in range(30)]
        assert [await run.result(WAIT_S) for run in runs] == [2 * number for number in range(30)]
        await until(lambda: one.finished + two.finished == 30)
        assert one.finished
        assert two.finished
        asked = await client.submit(ask, "asked", "refund?")
        await until(lambda: "asked" in [*one.waiting, *two.waiting])
        await client.approve("asked", "approve")
        assert await asked.result(WAIT_S) == "approved"


async def test_a_worker_that_the_group_gives_no_partition_has_joined(journal: Settings) -> None:
    """A deployment may have more workers than partitions, and waits until each of them is ready."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(Worker([double], journal)) for _ in range(5)]
        await until(lambda: sorted(len(one.assigned) for one in workers) == [0, 1, 1, 1, 1])
        await until(lambda: all(one.progress().is_caught_up and one.progress().is_joined for one in workers))
        assert all(one.progress().is_joined for one in workers)


async def test_a_worker_that_leaves_hands_over_what_waits(journal: Settings) -> None:
    """The other one is assigned its partitions, finds the run and wakes it."""
    async with Client.connect(journal) as client, Worker([ask], journal, grace_s=0.2) as stays:
        async with Worker([ask], journal, grace_s=0.2) as leaves:
            await until(lambda: len(stays.assigned) == len(leaves.assigned) == 2)
            runs = [await client.submit(ask, f"case-{number}", "refund?") for number in range(8)]
            await until(lambda: len([*stays.waiting, *leaves.waiting]) == 8)
            assert leaves.waiting
        await until(lambda: len(stays.waiting) == 8)
        for run in runs:
            await client.approve(run.id, "approve")
        assert {await run.result(WAIT_S) for run in runs} == {"approved"}


async def test_a_new_group_begins_at_the_first_submission(journal: Settings) -> None:
    """What was submitted before any worker ran is not lost."""
    async with Client.connect(journal) as client:
        run = await client.submit(double, "case-1", 4)
        async with Worker([double], journal):
            assert await run.result(WAIT_S) == 8


async def test_children_run_on_both_workers_and_bring_their_parents_back(journal: Settings) -> None:
    """A parent that waits leaves memory; its child is approved and ends on whichever worker."""
    async with (
        Client.connect(journal) as client,
        Worker([office, clerk], journal, grace_s=0.2) as one,
        Worker([office, clerk], journal, grace_s=0.2) as two,
    ):
        await until(lambda: len(one.assigned) == len(two.assigned) == 2)
        runs = [await client.submit(office, f"p{number}", ["a", "b", "asks"]) for number in range(8)]
        parents = {run.id for run in runs}
        await until(lambda: parents | {f"{each}.2" for each in parents} <= {*one.waiting, *two.waiting})
        assert not one.running
        assert not two.running
        for run in runs:
            await client.approve(f"{run.id}.2", "approve")
        assert [await run.result(WAIT_S) for run in runs] == [["A", "B", "approved"]] * 8
        await until(lambda: one.finished + two.finished == 32)
        assert min(one.finished, two.finished) > 4


async def test_firings_that_were_missed_are_submitted_once_by_two_groups_of_workers(journal: Settings) -> None:
    """Both leaders fire; the ids make it one run each. A trigger is one more run."""
    assert report.schedule is not None
    now = datetime.now(UTC).replace(microsecond=0)
    table = ScheduleTable().with_last("report", report.schedule, now - timedelta(minutes=5))
    async with Client.connect(journal) as client, Node.connect(journal) as node:
        await node.shared(TABLE_NAME).set(table.value())
        async with Worker([report], journal) as one, Worker([report, double], journal) as two:
            moments = [*report.schedule.firings(now - timedelta(minutes=5), now)]
            assert len(moments) == 5
            for moment in moments:
                assert await client.result(firing_id("report", moment), WAIT_S) == f"at {moment_text(moment)}"
            run = await client.trigger_schedule(report)
            assert await run.result(WAIT_S) == f"at {run.id.partition('@')[2]}"
            assert one._scheduler.submitted + two._scheduler.submitted >= 5
        for moment in moments:
            kinds = [each.entry.body.KIND async for each in node.entries(firing_id("report", moment))]
            assert kinds.count("finished") == kinds.count("agent_started") == 1
        (status,) = await client.schedules()
        assert status.last >= moments[-1]
