"""Steps that began and have no end: nobody knows whether they were done, so they run again. In memory."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from counted_steps import Counted
from cuts import of_kind, until
from seekpoint.producers import Node, Process
from seekpoint.producers.process import durable_side
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Fenced, ReplayDivergence


async def test_a_cancelled_step_is_in_doubt_and_runs_again_with_the_same_key(node: Node, log: MemoryLog) -> None:
    """Whether it was done, nobody knows: its idempotency key makes it safe."""
    keys = []

    async def pay(*, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "paid"

    process = await node.open("p")
    task = asyncio.create_task(process.step("pay", pay))
    await until(lambda: keys)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await process.release()
    async with node.open("p") as process:
        assert await process.step("pay", pay) == "paid"
    assert keys == ["p/pay:1", "p/pay:1"]
    assert [one.attempt for one in of_kind(log, b.StepStarted)] == [1, 2]
    assert len(of_kind(log, b.StepEnded)) == 1


async def test_a_step_of_a_fenced_owner_is_not_remembered_as_failed(log: MemoryLog) -> None:
    """The new owner finds it in doubt."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        process = await one.open("p")

        async def body() -> None:
            async with other.open("p", take_over=True) as theirs:
                await theirs.update("mine", True)
                await process.update("late", True)  # behind the claim: a confirmation has to have read the claim
                await process.confirm()

        with pytest.raises(Fenced):
            await process.step("work", body)
        durable_side(process).abandon()
        assert (await other.recover("p")).state.calls["work:1"].status == "started"


async def test_a_divergence_inside_a_step_is_no_failure_of_the_step(node: Node) -> None:
    """It stays in doubt: the code is wrong, and the right code goes on."""
    stuck, names = asyncio.Event(), ["inner", "renamed", "inner"]

    async def outer(process: Process, name: str) -> str:
        await process.step(name, Counted(1))
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return "done"

    process = await node.open("p")
    task = asyncio.create_task(process.step("outer", partial(outer, process, names[0])))
    await asyncio.wait_for(stuck.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await process.release()
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence):
            await process.step("outer", partial(outer, process, names[1]))
    assert (await node.recover("p")).state.calls["outer:1"].status == "started"
    async with node.open("p") as process:
        assert await process.step("outer", partial(outer, process, names[2])) == "done"
