"""Agents whose code, input or definition is not the one their process began with. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from refunds import World, refunder
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Refused, ReplayDivergence


async def test_a_process_belongs_to_the_agent_it_began_with(node: Node) -> None:
    """And to the input it began with."""
    world = World()
    world.break_at = "end"
    with pytest.raises(ValueError, match="broken"):
        await node.run(refunder(world), "p", {"order": "o-1"})
    with pytest.raises(Refused, match="another agent"):
        await node.run(agent("other")(refunder(world).run), "p")
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(refunder(world), "p", {"order": "o-2"})
    assert caught.value.kind == "input"
    world.break_at = None
    assert await node.run(refunder(world), "p", {"order": "o-1"}) == {"paid": "pay done"}


async def test_a_pinned_agent_resumes_only_under_its_definition(node: Node) -> None:
    """Another definition diverges; unpinned code may change."""

    def changed(pinned: bool) -> Agent:
        @agent("worker", 2, pinned=pinned)
        async def run(process: Process, input: Any) -> Any:
            return "changed"

        return run

    @agent("worker", 1)
    async def run(process: Process, input: Any) -> Any:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p")
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(changed(pinned=True), "p")
    assert (caught.value.kind, caught.value.expected) == ("definition", run.definition)
    assert await node.run(changed(pinned=False), "p") == "changed"


async def test_code_that_changed_is_told_where_and_runs_nothing(node: Node, log: MemoryLog) -> None:
    """A renamed step, a write of another value, a step left out."""
    world = World()
    world.break_at = "end"
    with pytest.raises(ValueError, match="broken"):
        await node.run(refunder(world), "p", {"order": "o-1"})

    def variant(number: int) -> Agent:
        @agent("refunder", 2)
        async def run(process: Process, input: Any) -> Any:
            await process.update("order", "x" if number == 0 else input["order"])
            await process.step("renamed" if number == 1 else "find", world.do, "find")
            if number != 2:
                await process.say("assistant", "find done")

        return run

    kinds = []
    for number in range(3):
        with pytest.raises(ReplayDivergence) as caught:
            await node.run(variant(number), "p")
        kinds.append((caught.value.kind, caught.value.key))
    assert kinds == [("input", "#1"), ("order", "renamed:1"), ("length", "#3")]
    assert world.done == ["find", "pay"]
    assert (await node.recover("p")).state.lifecycle == "failed"


async def test_version_two_goes_on_where_version_one_stopped(node: Node) -> None:
    """Stopped after step 12 of 20, step 13 changed: no step is repeated, the run ends."""
    world = World()

    def version(number: int) -> Agent:
        @agent("stepper", number)
        async def run(process: Process, input: Any) -> Any:
            for index in range(1, 21):
                if number == 1 and index == 13:
                    raise ValueError("stopped")
                await process.step("work", world.do, f"{index} by {number}" if index == 13 else str(index))
            return len(world.done)

        return run

    with pytest.raises(ValueError, match="stopped"):
        await node.run(version(1), "p")
    assert await node.run(version(2), "p") == 20
    assert world.done == [*map(str, range(1, 13)), "13 by 2", *map(str, range(14, 21))]
