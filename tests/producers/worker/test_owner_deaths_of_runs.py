"""A run whose owners died without progress, in memory: it is parked, and goes on after a redrive."""

from __future__ import annotations

import pytest

from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting, OwnersDied
from seekpoint.schemas.state.lifecycle import Lifecycle

pytestmark = pytest.mark.asyncio


def calling(log: MemoryLog, called: list[str]) -> Agent:
    @agent("a", owner_deaths_max=2)
    async def run(process: Process, _: None) -> str:
        async def call() -> str:
            called.append(history_of(log, "p")[-1].body.KIND)
            return "called"

        await process.flush()  # nothing else is under way that the step could wait for
        return await process.step("call", call)

    return run


async def submit(log: MemoryLog, deaths: int) -> None:
    """Submit a run, which one owner after the other claims and dies with."""
    async with Node.in_memory(log) as node:
        await runtime_of(node).append_external("p", b.Submitted(agent="a", input="null"))
    for _ in range(deaths + 1):
        async with Node.in_memory(log) as node:
            await node.open("p", take_over=True)
            runtime_of(node).handles.clear()  # it releases nothing


async def test_a_step_that_may_have_ended_an_owner_leaves_a_start_before_it_runs() -> None:
    """Though it waits for nothing: else nobody could tell which call it was."""
    log, called = MemoryLog(partitions=1), list[str]()
    await submit(log, 0)
    async with Node.in_memory(log) as node:
        assert await node.run(calling(log, called), "p") == "called"
    assert called == ["step_started"]


async def test_a_run_is_parked_and_goes_on_after_a_redrive() -> None:
    """Nothing is called before. The next run begins to count anew."""
    log, called = MemoryLog(partitions=1), list[str]()
    run = calling(log, called)
    await submit(log, 1)
    async with Node.in_memory(log) as node:
        with pytest.raises(OwnersDied) as parked:
            await node.run(run, "p")
        assert parked.value.deaths == 2
        state = (await node.recover("p")).state
        assert (state.lifecycle, state.owner_deaths, called) == (Lifecycle.FAILED, 0, [])
        await node.redrive("p")
        assert await node.run(run, "p") == "called"


async def test_the_number_of_deaths_is_checked() -> None:
    """At the decorator."""
    for wrong in (0, True, "3", 1.5):
        with pytest.raises(InvalidSetting, match="owner_deaths_max"):
            agent("x", owner_deaths_max=wrong)  # type: ignore[arg-type]
