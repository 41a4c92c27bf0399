"""Agents whose code, input or definition is not the one their process began with. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from cuts import bodies
from refund_agent import World, refunder
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import AgentMismatch, ReplayDivergence
from seekpoint.schemas.state.process_state import State


def strangers(own: Agent) -> list[tuple[Agent, tuple[Any, ...], str]]:
    """Calls of another agent, and of the same one with another input, for a process that ``own`` began with o-1."""
    other = agent("other")(own.run)
    return [
        (other, (), "agent"),
        (other, ({"order": "o-1"},), "agent"),
        (own, (None,), "input"),
        (own, ({"order": "o-2"},), "input"),
    ]


async def test_a_process_belongs_to_the_agent_it_began_with(node: Node, log: MemoryLog) -> None:
    """And to the input it began with. Whoever asks something else writes nothing, not even a claim."""
    world = World()
    world.break_at = "end"
    with pytest.raises(ValueError, match="broken"):
        await node.run(refunder(world), "p", {"order": "o-1"})
    before = bodies(log)
    for other, given, kind in strangers(refunder(world)):
        with pytest.raises(AgentMismatch) as caught:
            await node.run(other, "p", *given)
        assert caught.value.kind == kind
    assert caught.value.difference == '$.order: "o-1" is now "o-2"'
    assert bodies(log) == before
    world.break_at = None
    assert await node.run(refunder(world), "p", {"order": "o-1"}) == {"paid": "pay done"}


async def test_a_finished_process_answers_nobody_elses_question(node: Node, log: MemoryLog) -> None:
    """O8: its gravestone keeps the agent and a digest of the input; both are compared wherever the state is read."""
    world = World()
    own = refunder(world)
    await node.run(own, "p", {"order": "o-1"})
    before = bodies(log)
    for other, given, kind in strangers(own):
        with pytest.raises(AgentMismatch) as caught:
            await node.run(other, "p", *given)
        assert caught.value.kind == kind
    assert bodies(log) == before
    state = (await node.recover("p")).state
    assert state.agent is not None
    assert (state.agent.name, state.agent.version) == ("refunder", "1")
    assert State.from_bytes(state.to_bytes()).agent == state.agent


async def test_another_version_of_the_agent_gets_the_result_that_is_there(node: Node) -> None:
    """A roll-out must not break callers that ask again."""

    def version(number: int) -> Agent:
        @agent("worker", number, pinned=True)
        async def run(process: Process, input: Any) -> Any:
            return number

        return run

    assert await node.run(version(1), "p", "x") == 1
    assert await node.run(version(2), "p", "x") == 1


async def test_a_process_that_a_program_finished_is_no_agents(node: Node) -> None:
    """Its result was not made by the agent that is asked for."""
    async with node.open("p") as process:
        await process.finish("by hand")
    with pytest.raises(AgentMismatch, match="by a program"):
        await node.run(agent("other")(refunder(World()).run), "p")


async def test_a_parent_does_not_inherit_another_agents_result(node: Node) -> None:
    """The child that is there already is not the one that was asked for: a failure of the child, remembered as such."""
    await node.run(refunder(World()), "c", {"order": "o-1"})

    @agent("child")
    async def child(process: Process, input: Any) -> Any:
        return "asked for"

    @agent("parent")
    async def parent(process: Process, input: Any) -> Any:
        with pytest.raises(AgentMismatch):
            await process.spawn(child, "c", {"order": "o-1"}).result()
        with pytest.raises(AgentMismatch):
            await process.spawn(refunder(World()), "c", {"order": "o-2"}).result()
        return await process.spawn(refunder(World()), "c", {"order": "o-1"}).result()

    assert await node.run(parent, "p") == {"paid": "pay done"}


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
