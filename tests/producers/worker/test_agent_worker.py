"""Workers in memory: from a submission to its result, whoever dies in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seekpoint.producers import Agent, Client, Node, Process, Rate, Retry, Worker, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import AgentMismatch, Cancelled, ProcessSuspended, ResultTimeout, RunFailed

pytestmark = pytest.mark.asyncio

ROUND_S = 5.0


@agent("double")
async def double(process: Process, number: int) -> int:
    return await process.step("double", lambda: number * 2)


@agent("ask")
async def ask(process: Process, question: str) -> str:
    await process.step("prepare", lambda: None)
    answer = await process.gate("approve", prompt=question)
    return answer.outcome


@agent("nap")
async def nap(process: Process, span_s: float) -> str:
    await process.sleep(span_s)
    return "awake"


@agent("fails")
async def fails(process: Process, text: str) -> None:
    raise ValueError(text)


ATTEMPTS: dict[str, list[str]] = {}
"""What the flaky agent did, by its process."""


@agent("flaky", retry=Retry(attempts=3, backoff_s=0.05, jitter=0))
async def flaky(process: Process, fails_times: int) -> str:
    done = ATTEMPTS.setdefault(process.process_id, [])
    await process.step("first", lambda: done.append("first"))

    def second() -> str:
        done.append("second")
        if done.count("second") <= fails_times:
            raise ValueError("not yet")
        return "done"

    return await process.step("second", second)


@agent("pays", retry=Retry(attempts=2, backoff_s=0.05, jitter=0))
async def pays(process: Process, fails_times: int) -> str:
    done = ATTEMPTS.setdefault(process.process_id, [])

    async def pay() -> str:
        done.append("pay")
        return "paid"

    async def take_back() -> None:
        done.append("take back")

    def ship() -> str:
        done.append("ship")
        if done.count("ship") <= fails_times:
            raise ValueError("not yet")
        return "done"

    await process.effect("pay", pay, compensate=take_back)
    return await process.step("ship", ship)


@agent("paced", rate=Rate(2, per_s=1.0))
async def paced(process: Process, number: int) -> int:
    ATTEMPTS.setdefault("paced", []).append(process.process_id)
    return number


@agent("endless")
async def endless(process: Process, _: None) -> None:
    done = ATTEMPTS.setdefault(process.process_id, [])

    async def work() -> None:
        done.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            done.append("ended")

    await process.step("work", work)


AGENTS: list[Agent] = [double, ask, nap, fails, flaky, pays, paced, endless]


class Fleet:
    """A log in memory, with a client and a group of workers."""

    def __init__(self) -> None:
        self.log = MemoryLog()

    def worker(self, **options: Any) -> Worker:
        return Worker.in_memory(AGENTS, self.log, **{"grace_s": 0.1, "drain_s": 2.0, **options})


@asynccontextmanager
async def fleet(**options: Any) -> AsyncIterator[tuple[Fleet, Client, Worker]]:
    made = Fleet()
    async with Client.in_memory(made.log) as client, made.worker(**options) as worker:
        yield made, client, worker


async def until(condition: Any) -> None:
    async with asyncio.timeout(ROUND_S):
        while not condition():  # noqa: ASYNC110  # workers give no event for what they know
            await asyncio.sleep(0.01)


async def test_a_submitted_run_gives_its_result() -> None:
    """The client waits by the log, and a second submission is the same run."""
    async with fleet() as (_, client, worker):
        run = await client.submit(double, "case-1", 21, actor="ann", correlation_id="thread-7")
        assert await run.result(ROUND_S) == 42
        assert await (await client.submit("double", "case-1", 21)).result(ROUND_S) == 42
        assert (await run.status()).stage == "finished"
        await until(lambda: worker.finished == 1)  # it counts a run just after the result is in the log
        state = await client.state("case-1")
        assert state.agent is not None
        assert state.agent.correlation_id == "thread-7"


async def test_many_runs_end_once() -> None:
    """Whatever order they begin in."""
    async with fleet(runs_max=5) as (_, client, worker):
        runs = [await client.submit(double, f"case-{number}", number) for number in range(40)]
        assert [await run.result(ROUND_S) for run in runs] == [2 * number for number in range(40)]
        await until(lambda: not worker.running)  # a run leaves just after its result is in the log
        assert worker.finished == 40


async def test_another_agent_or_input_is_refused() -> None:
    """Before the run begins and after it."""
    async with fleet() as (_, client, _):
        run = await client.submit(double, "case-1", 21)
        await run.result(ROUND_S)
        for other, given in (("ask", 21), ("double", 22)):
            with pytest.raises(AgentMismatch):
                await client.submit(other, "case-1", given)


async def test_a_run_that_waits_leaves_memory_and_returns() -> None:
    """Its step does not run again, and the gate's answer counts."""
    async with fleet() as (_, client, worker):
        run = await client.submit(ask, "case-1", "refund?")
        await until(lambda: "case-1" in worker.waiting)
        assert not worker.running
        assert (await run.status()).waits_for == ("approve:1",)
        await client.approve("case-1", "approve")
        assert await run.result(ROUND_S) == "approved"
        assert (await client.state("case-1")).epoch == 2


async def test_a_timer_of_a_run_that_left_memory_fires() -> None:
    """At its moment, by the worker."""
    async with fleet() as (_, client, worker):
        run = await client.submit(nap, "case-1", 3.0)
        await until(lambda: "case-1" in worker.waiting)
        assert await run.result(ROUND_S) == "awake"


async def test_a_failed_run_raises_at_the_client() -> None:
    """With class and message of the exception."""
    async with fleet() as (_, client, worker):
        run = await client.submit(fails, "case-1", "no money")
        with pytest.raises(RunFailed, match="ValueError: no money"):
            await run.result(ROUND_S)
        await until(lambda: worker.left.get("case-1") == "failed")
        assert worker.failed == 1


async def test_a_failed_run_is_tried_again_and_what_succeeded_stays() -> None:
    """The client waits for the last attempt."""
    async with fleet() as (_, client, worker):
        run = await client.submit(flaky, "case-1", 2)
        assert await run.result(ROUND_S) == "done"
        assert ATTEMPTS.pop("case-1") == ["first", "second", "second", "second"]
        assert worker.failed == 2


async def test_a_run_that_is_tried_again_takes_nothing_back() -> None:
    """Only the last failure does."""
    async with fleet() as (_, client, _):
        run = await client.submit(pays, "case-1", 1)
        assert await run.result(ROUND_S) == "done"
        assert ATTEMPTS.pop("case-1") == ["pay", "ship", "ship"]
        run = await client.submit(pays, "case-2", 9)
        with pytest.raises(RunFailed):
            await run.result(ROUND_S)
        assert ATTEMPTS.pop("case-2") == ["pay", "ship", "ship", "take back"]


async def test_a_run_stays_failed_when_its_attempts_are_used_up() -> None:
    """And the client learns of it only then."""
    async with fleet() as (_, client, worker):
        run = await client.submit(flaky, "case-1", 9)
        with pytest.raises(RunFailed, match="not yet"):
            await run.result(ROUND_S)
        assert ATTEMPTS.pop("case-1") == ["first", "second", "second", "second"]
        await until(lambda: worker.left.get("case-1") == "failed")
        state = await client.state("case-1")
        assert state.run_failures is not None
        assert (state.run_failures.count, state.run_failures.retry_at_us) == (3, None)


async def test_a_failed_run_is_redriven_on_request() -> None:
    """When the cause is gone; the step that had succeeded is not made again, nor is the run failed to a client."""
    async with fleet() as (_, client, worker):
        run = await client.submit(flaky, "case-1", 3)
        with pytest.raises(RunFailed):
            await run.result(ROUND_S)
        await until(lambda: worker.left.get("case-1") == "failed")
        await client.redrive("case-1", "the bank is back", actor="ann")
        assert await run.result(ROUND_S) == "done"
        assert ATTEMPTS.pop("case-1") == ["first", "second", "second", "second", "second"]


async def test_a_cancelled_run_ends_although_nobody_runs_it() -> None:
    """The request wakes it."""
    async with fleet() as (_, client, worker):
        run = await client.submit(ask, "case-1", "refund?")
        await until(lambda: "case-1" in worker.waiting)
        await run.cancel("enough")
        with pytest.raises(Cancelled):
            await run.result(ROUND_S)
        await until(lambda: worker.cancelled == 1)


async def test_a_delayed_run_begins_at_its_moment() -> None:
    """And is known before."""
    async with fleet() as (_, client, worker):
        run = await client.submit(double, "case-1", 1, delay=1.0)
        await until(lambda: "case-1" in worker.waiting)
        assert (await run.status()).stage == "submitted"
        with pytest.raises(ResultTimeout):
            await run.result(0.1)
        assert await run.result(ROUND_S) == 2


async def test_the_runs_of_an_agent_with_a_rate_begin_at_that_rate() -> None:
    """Two a second here, and those of other agents at once."""
    async with fleet() as (_, client, worker):
        runs = [await client.submit(paced, f"case-{number}", number) for number in range(5)]
        assert await (await client.submit(double, "case-9", 4)).result(ROUND_S) == 8
        assert len(worker.ready) >= 2
        began = asyncio.get_running_loop().time()
        assert [await run.result(ROUND_S) for run in runs] == [0, 1, 2, 3, 4]
        assert asyncio.get_running_loop().time() - began > 1.0
        assert len(ATTEMPTS.pop("paced")) == 5


async def test_a_suspended_process_is_not_run_before_it_is_resumed() -> None:
    """Neither by a worker nor by a node."""
    async with fleet() as (made, client, worker):
        run = await client.submit(ask, "case-1", "refund?")
        await until(lambda: "case-1" in worker.waiting)
        await client.suspend("case-1", "look at it")
        await until(lambda: worker.left.get("case-1") == "suspended")
        await client.approve("case-1", "approve")
        async with Node.in_memory(made.log) as node:
            with pytest.raises(ProcessSuspended, match="suspended"):
                await node.run(ask, "case-1")
        assert (await run.status()).stage == "suspended"
        await client.resume("case-1")
        assert await run.result(ROUND_S) == "approved"


async def test_a_submission_before_any_worker_waits_for_one() -> None:
    """It is in the inbox."""
    made = Fleet()
    async with Client.in_memory(made.log) as client:
        run = await client.submit(double, "case-1", 4)
        assert (await run.status()).stage == "unknown"
        async with made.worker():
            assert await run.result(ROUND_S) == 8


async def test_a_second_worker_goes_on_after_a_drain() -> None:
    """The first releases what waits; the next one wakes it."""
    made = Fleet()
    async with Client.in_memory(made.log) as client:
        async with made.worker() as first:
            run = await client.submit(ask, "case-1", "refund?")
            await until(lambda: first.running or first.waiting)
        async with made.worker() as second:
            await until(lambda: "case-1" in second.waiting)
            await client.approve("case-1", "approve")
            assert await run.result(ROUND_S) == "approved"


async def test_a_worker_may_be_closed_twice() -> None:
    """A second call waits for the drain that the first one began; a later one returns at once."""
    async with fleet() as (_, client, worker):
        run = await client.submit(endless, "case-1")
        await until(lambda: "case-1" in ATTEMPTS)
        first, second = (asyncio.create_task(worker.close()) for _ in range(2))
        await second
        assert ATTEMPTS.pop("case-1") == ["began", "ended"]
        assert (await client.state(run.id)).owner is None
        await first
        await worker.close()


async def test_a_close_that_is_cancelled_ends_the_drain() -> None:
    """The run is released, so another worker goes on with it at once."""
    made = Fleet()
    async with Client.in_memory(made.log) as client:
        worker = await made.worker(drain_s=600).start()
        run = await client.submit(endless, "case-1")
        await until(lambda: "case-1" in ATTEMPTS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.close(), 0.1)
        assert ATTEMPTS.pop("case-1") == ["began", "ended"]
        await worker.close()
        assert (await client.state(run.id)).owner is None


async def test_a_close_that_is_cancelled_early_releases_the_runs() -> None:
    """While it still leaves the group, and another call waits for it: that one returns once the worker is closed."""
    made, is_leaving, may_leave = Fleet(), threading.Event(), threading.Event()
    async with Client.in_memory(made.log) as client:
        worker = await made.worker(drain_s=600).start()
        assert worker._intake is not None
        member = worker._intake._member
        leave = member.close

        def close() -> None:
            is_leaving.set()
            may_leave.wait(ROUND_S)
            leave()

        member.close = close  # type: ignore[method-assign]
        run = await client.submit(endless, "case-1")
        await until(lambda: "case-1" in ATTEMPTS)
        first, second = (asyncio.create_task(worker.close()) for _ in range(2))
        await until(is_leaving.is_set)
        second.cancel()
        await asyncio.wait_for(first, ROUND_S)
        may_leave.set()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert ATTEMPTS.pop("case-1") == ["began", "ended"]
        assert (await client.state(run.id)).owner is None


async def test_a_run_that_had_not_waited_for_long_is_released_as_running() -> None:
    """It may have been about to go on, so the next worker runs it once, and then lets it wait."""
    made = Fleet()
    async with Client.in_memory(made.log) as client:
        async with made.worker(grace_s=60) as first:
            run = await client.submit(ask, "case-1", "refund?")
            while not (await run.status()).waits_for:  # noqa: ASYNC110  # a client has no event for it
                await asyncio.sleep(0.01)
            assert first.running
        state = await client.state("case-1")
        assert (state.lifecycle, state.owner) == ("running", None)
        async with made.worker() as second:
            await until(lambda: "case-1" in second.waiting)
        assert (await client.state("case-1")).lifecycle == "awaiting"


async def test_two_workers_share_the_partitions() -> None:
    """All runs end, each once."""
    made = Fleet()
    async with Client.in_memory(made.log) as client, made.worker() as one, made.worker() as two:
        await until(lambda: len(one.assigned) == len(two.assigned) == 4)
        runs = [await client.submit(double, f"case-{number}", number) for number in range(40)]
        assert [await run.result(ROUND_S) for run in runs] == [2 * number for number in range(40)]
        await until(lambda: one.finished + two.finished == 40)  # counted just after its result
        assert min(one.finished, two.finished) > 5
