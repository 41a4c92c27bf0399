"""What could lose a wake-up, a submission or time: workers in memory, at the worst moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lost_workers import vanish
from seekpoint.consumers.recovery.open_processes import recover_open
from seekpoint.producers import Client, Process, Worker, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.worker import responsibility
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Cancelled
from seekpoint.schemas.log.tail import TailBatch

ROUND_S = 5.0
RUNS: list[str] = []


@agent("double")
async def double(process: Process, number: int) -> int:
    return await process.step("double", lambda: number * 2)


@agent("ask")
async def ask(process: Process, question: str) -> str:
    answer = await process.gate("approve", prompt=question)
    return answer.outcome


async def until(condition: Any) -> None:
    async with asyncio.timeout(ROUND_S):
        while not condition():  # noqa: ASYNC110  # workers give no event for what they know
            await asyncio.sleep(0.01)


async def test_mail_that_comes_when_a_run_leaves_memory_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is looked at after its mail has come, and before its code has seen it."""
    log = MemoryLog()
    async with Client.in_memory(log) as client, Worker.in_memory([ask], log, grace_s=3600.0) as worker:
        run = await client.submit(ask, "case-1", "refund?")
        await until(lambda: worker._runs._runs and next(iter(worker._runs._runs.values())).process is not None)
        while "approve:1" not in (await run.status()).waits_for:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        [under_way] = worker._runs._runs.values()
        worker._runs.park_idle(3600.0)  # from here on the run is idle
        await asyncio.sleep(0.1)
        deliver = PartitionTail.deliver

        def delivered(tail: PartitionTail, batch: TailBatch) -> None:
            deliver(tail, batch)
            if tail is runtime_of(worker.node).tailer.tail(tail.partition):  # that of the client may be earlier
                worker._runs.park_idle(0.05)

        monkeypatch.setattr(PartitionTail, "deliver", delivered)
        await client.approve("case-1", "approve")
        assert await run.result(ROUND_S) == "approved"
        assert not under_way.is_parked


@agent("doubtful")
async def doubtful(process: Process, question: str) -> None:
    RUNS.append(question)

    async def pay() -> None:
        raise TimeoutError("no answer")

    await asyncio.gather(process.step("slow", asyncio.sleep, 60), process.effect("pay", pay))


async def test_a_run_that_ends_with_the_same_error_is_not_begun_without_end() -> None:
    """Its effect is in doubt, and another step of it has no outcome: that step asks for a run."""
    RUNS.clear()
    log = MemoryLog()
    async with (
        Client.in_memory(log) as client,
        Worker.in_memory([doubtful], log, grace_s=0.1, drain_s=0.1) as worker,
    ):
        await client.submit(doubtful, "case-1", "again?")
        await until(lambda: worker.failed)
        await asyncio.sleep(1.5)
        assert 1 <= len(RUNS) <= 3


async def test_a_partition_that_cannot_be_loaded_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is: without its load a worker would never look at what the partition has."""
    load, failures = recover_open, [OSError("too many open files")]

    def failing(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return load(*arguments)

    made = MemoryLog()
    async with Client.in_memory(made) as client:
        async with Worker.in_memory([ask], made, grace_s=0.05) as first:
            runs = [await client.submit(ask, f"case-{number}", "refund?") for number in range(8)]
            await until(lambda: len(first.waiting) == 8)
        for run in runs:
            await client.approve(run.id, "approve")
        monkeypatch.setattr(responsibility, "recover_open", failing)
        async with Worker.in_memory([ask], made):
            assert {await run.result(20.0) for run in runs} == {"approved"}
    assert not failures


@agent("slow")
async def slow(process: Process, span_s: float) -> str:
    await process.step("slow", asyncio.sleep, span_s)
    return "done"


async def test_another_worker_takes_submissions_while_one_drains() -> None:
    """A worker that drains begins nothing: what is submitted to its partitions must not wait for its runs."""
    log = MemoryLog()
    async with Client.in_memory(log) as client:
        leaves = await Worker.in_memory([slow, double], log, drain_s=30.0).start()
        under_way = await client.submit(slow, "slow", 2.0)
        await until(lambda: "slow" in leaves.running)
        async with Worker.in_memory([slow, double], log):
            closing = asyncio.ensure_future(leaves.close())
            runs = [await client.submit(double, f"case-{number}", number) for number in range(16)]
            async with asyncio.timeout(1.5):
                assert [await run.result() for run in runs] == [2 * number for number in range(16)]
            assert not closing.done()
            assert await under_way.result(ROUND_S) == "done"
            assert (await under_way.status()).stage == "finished"
            assert (await client.state("slow")).epoch == 1
            await closing


@agent("pays back")
async def pays_back(process: Process, question: str) -> None:
    async def pay() -> None:
        RUNS.append("pay")

    async def take_back() -> None:
        RUNS.append("take back")
        if RUNS.count("take back") == 1:
            await asyncio.sleep(60)  # until its worker dies

    await process.effect("pay", pay, compensate=take_back)
    await process.gate("approve", prompt=question)


async def test_a_cancelled_run_whose_worker_dies_while_it_takes_back_is_stopped_by_another_one() -> None:
    """A process that is stopping has compensations to make."""
    RUNS.clear()
    log = MemoryLog()
    async with Client.in_memory(log) as client, asyncio.timeout(30):
        first = await Worker.in_memory([pays_back], log).start()
        run = await client.submit(pays_back, "case-1", "refund?")
        await until(lambda: "pay" in RUNS)
        await run.cancel()
        await until(lambda: "take back" in RUNS)
        await vanish(first)
        async with Worker.in_memory([pays_back], log):
            with pytest.raises(Cancelled):
                await run.result(20.0)
        assert (await client.state("case-1")).lifecycle == "stopped"
    assert RUNS == ["pay", "take back", "take back"]
