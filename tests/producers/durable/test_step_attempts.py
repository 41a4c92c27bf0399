"""Attempts of a step: how many, how long apart, and what a further one keeps of those before. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counted_steps import Counted, Declined, failing, twice
from cuts import of_kind, until
from seekpoint.producers import Node, Process, Retry, VirtualClock, step
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b


async def test_a_failed_attempt_is_tried_again_after_a_wait(node: Node, log: MemoryLog) -> None:
    """Each attempt is recorded; the waits grow."""
    body = Counted(Declined("1"), Declined("2"), "done")
    clock = node.clock
    async with node.open("p") as process:
        before = clock.monotonic()
        assert await process.step("pay", body, retry=Retry(attempts=3, backoff_s=10, jitter=0)) == "done"
        assert clock.monotonic() - before == pytest.approx(30)
    assert [(one.attempt, one.idempotency_key) for one in of_kind(log, b.StepStarted)] == [
        (1, "p/pay:1"), (2, "p/pay:1"), (3, "p/pay:1"),
    ]  # fmt: skip
    assert [(one.attempt, one.outcome) for one in of_kind(log, b.StepEnded)] == [
        (1, "retry"), (2, "retry"), (3, "succeeded"),
    ]  # fmt: skip


async def test_attempts_end_and_the_last_error_is_the_failure(node: Node) -> None:
    """Remembered as the first run saw it."""
    body = Counted(Declined("1"), Declined("2"), Declined("3"))
    results = await twice(node, lambda process: failing(process, body, retry=Retry(attempts=2)))
    assert results == ["Declined: 2"] * 2
    assert len(body.runs) == 2


async def test_a_final_error_ends_the_attempts(node: Node) -> None:
    """What the user names is not tried again."""
    body = Counted(Declined("1"), "never")
    async with node.open("p") as process:
        assert await failing(process, body, retry=Retry(attempts=5, non_retryable=(Declined,))) == "Declined: 1"
    assert len(body.runs) == 1


async def test_the_wait_before_an_attempt_survives_the_owner(log: MemoryLog) -> None:
    """Whoever resumes waits what is left of it, and goes on counting."""
    body, clock = Counted(Declined("1"), "done"), VirtualClock(skips=False)
    retry = Retry(attempts=2, backoff_s=100, backoff_max_s=100, jitter=0)
    async with Node.in_memory(log, clock=clock) as node:
        process = await node.open("p")
        task = asyncio.create_task(process.step("pay", body, retry=retry))
        await until(lambda: of_kind(log, b.StepEnded))
        clock.advance(30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await process.release()
    heirs = VirtualClock(clock.now_us())
    async with Node.in_memory(log, clock=heirs) as node, node.open("p") as process:
        assert await process.step("pay", body, retry=retry) == "done"
    assert heirs.monotonic() == pytest.approx(70)
    assert [(one.attempt, one.outcome) for one in of_kind(log, b.StepEnded)] == [(1, "retry"), (2, "succeeded")]


async def test_a_further_attempt_keeps_the_steps_that_succeeded_inside(node: Node) -> None:
    """Only what failed is done again: a card is not charged twice."""
    charge, ship = Counted("charged"), Counted(Declined("no truck"), "shipped")

    async def work(process: Process) -> Any:
        async def order() -> Any:
            return [await process.step("charge", charge), await process.step("ship", ship)]

        return await process.step("order", order, retry=Retry(attempts=2))

    assert await twice(node, work) == [["charged", "shipped"]] * 2
    assert (len(charge.runs), len(ship.runs)) == (1, 2)


async def test_a_further_attempt_after_a_takeover_keeps_them_too(node: Node, log: MemoryLog) -> None:
    """The second attempt died in the middle: the third keeps what the first one did."""
    charge, ship = Counted("charged"), Counted(Declined("no truck"), "shipped")
    stuck = asyncio.Event()
    hang = True

    async def work(process: Process) -> Any:
        async def order() -> Any:
            found = [await process.step("charge", charge), await process.step("ship", ship)]
            if hang:
                stuck.set()
                await asyncio.Event().wait()
            return found

        return await process.step("order", order, retry=Retry(attempts=3))

    process = await node.open("p")
    task = asyncio.create_task(work(process))
    await asyncio.wait_for(stuck.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await process.release()
    hang = False
    async with node.open("p") as process:
        assert await asyncio.create_task(work(process)) == ["charged", "shipped"]
    assert (len(charge.runs), len(ship.runs)) == (1, 2)
    assert [one.attempt for one in of_kind(log, b.StepStarted) if one.key.endswith("order:1")] == [1, 2, 3]


async def test_each_attempt_says_once_when_it_began(node: Node, log: MemoryLog) -> None:
    """Not when its start left, late in the body or with the end: with it, if the body never waits, else before it."""
    clock, began = node.clock, list[int]()
    assert isinstance(clock, VirtualClock)

    async def slow() -> str:
        began.append(clock.now_us())
        clock.advance(5)  # work that gives nobody else a turn
        if len(began) % 2 == 0:
            await asyncio.sleep(0)
            clock.advance(5)
        if len(began) < 4:
            raise ConnectionError("gone")
        return "there"

    async with node.open("p") as process:
        assert await process.step("slow", slow, retry=Retry(attempts=4)) == "there"
    starts = of_kind(log, b.StepStarted)
    assert [(one.attempt, one.started_at_us) for one in starts] == list(enumerate(began, start=1))
    ends = of_kind(log, b.StepEnded)
    assert [(one.attempt, one.started_at_us is None) for one in ends] == [(1, False), (2, True), (3, False), (4, True)]
    assert [one.ended_at_us - at for one, at in zip(ends, began, strict=True)] == [5_000_000, 10_000_000] * 2
    assert [one.duration_us for one in ends] == [5_000_000, 10_000_000] * 2


async def test_a_function_that_is_a_step_brings_its_terms(node: Node) -> None:
    """How often and how long, unless the call says otherwise."""
    quick = Retry(attempts=2, backoff_s=0)
    body = Counted(Declined("1"), "done", Declined("3"))
    pay = step("pay", retry=quick)(body)

    @step(timeout=5)
    async def hang() -> None:
        await node.clock.sleep(60)

    async with node.open("p") as process:
        assert await pay(process) == "done"
        with pytest.raises(Declined):
            await pay.with_options(retry=Retry(attempts=1))(process)
        with pytest.raises(TimeoutError, match="longer than 5"):
            await asyncio.wait_for(hang(process), 60)
