"""Running an agent without a worker: from its claim to its confirmed result, through failures. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cut_offs import cut_here, cut_off
from cuts import bodies, of_kind
from open_processes import durable_side
from refund_agent import World, refunder
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.node_services import AgentNode
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import (
    AgentMismatch,
    AlreadyOpen,
    Fenced,
    IllegalTransition,
    LimitExceeded,
    ProcessFinished,
    Refused,
    ReplayDivergence,
    UnserializableValue,
)


def lives(log: MemoryLog) -> list[str]:
    return [body.to for body in of_kind(log, b.LifecycleChanged)]


FIRST = ({"order": "o-1"}, ["find done"])


SECOND = ({"order": "paid"}, 1)


async def test_an_agent_runs_to_its_result(node: Node, log: MemoryLog) -> None:
    """Claim, input, lifecycle and result are entries; the claim names agent, version and definition."""
    world = World()
    run = refunder(world)
    assert await node.run(run, "p", {"order": "o-1"}) == {"paid": "pay done"}
    claim = bodies(log)[0]
    assert isinstance(claim, b.Claim)
    assert (claim.agent, claim.agent_version, claim.definition) == ("refunder", "1", run.definition)
    started = next(body for body in bodies(log) if isinstance(body, b.AgentStarted))
    assert (started.agent, started.version, started.input) == ("refunder", "1", '{"order":"o-1"}')
    assert lives(log) == []  # the first and the last entry say it
    state = (await node.recover("p")).state
    assert (state.finished, state.lifecycle, state.result) == (True, "stopped", {"paid": "pay done"})


@pytest.mark.parametrize("is_plain", [False, True])
async def test_without_an_input_the_code_gets_the_default_of_its_parameter(
    node: Node, log: MemoryLog, is_plain: bool
) -> None:
    """It is recorded as the input, so that changed code does not change it; None is an input of its own."""
    made: dict[str, Any] = {}
    exec(f"{'' if is_plain else 'async '}def run(process, order={{'number': 1}}): return order", made)
    run = agent("defaulting")(made["run"])
    assert await node.run(run, "p") == await node.run(run, "q", new=True) == {"number": 1}
    assert await node.run(run, "r", None) is None
    assert await node.run(run, "p", {"number": 1}) == {"number": 1}
    with pytest.raises(AgentMismatch):
        await node.run(run, "p", None)
    assert [of_kind(log, b.AgentStarted, one)[0].input for one in "pqr"] == ['{"number":1}', '{"number":1}', "null"]
    called = run(None) if is_plain else await run(None)
    assert called == {"number": 1}

    @agent("plain")
    async def without(process: Process, _: Any) -> Any:
        return _

    assert await node.run(without, "s") is None


async def test_a_finished_process_answers_its_result_and_nothing_runs(node: Node, log: MemoryLog) -> None:
    """With the input it began with, or with none given."""
    world = World()
    run = refunder(world)
    first = await node.run(run, "p", {"order": "o-1"})
    size = len(bodies(log))
    assert await node.run(run, "p") == await node.run(run, "p", {"order": "o-1"}) == first
    assert world.done == ["find", "pay"]
    assert len(bodies(log)) == size


async def test_a_failed_agent_is_recorded_and_resumes(node: Node, log: MemoryLog) -> None:
    """Its steps are remembered, its writes are not written twice, and it sees its content as it was."""
    world = World()
    run = refunder(world)
    world.break_at = "end"
    with pytest.raises(ValueError, match="broken at end"):
        await node.run(run, "p", {"order": "o-1"})
    assert lives(log) == ["failed"]
    assert [body.type for body in bodies(log) if isinstance(body, b.ErrorRecorded)] == ["ValueError"]
    world.break_at = None
    assert await node.run(run, "p") == {"paid": "pay done"}
    assert world.done == ["find", "pay"]
    assert world.seen == [FIRST, FIRST, SECOND]
    writes = [body for body in bodies(log) if isinstance(body, b.ContextUpdated | b.MessageSaid)]
    assert [body.call for body in writes] == ["#1", "#3", "#4"]
    assert lives(log) == ["failed", "starting", "running"]


async def test_a_cancelled_run_is_released_as_it_stands(node: Node, log: MemoryLog) -> None:
    """No failure; it resumes, here or elsewhere."""
    world, reached = World(), asyncio.Event()

    @agent("waiter")
    async def run(process: Process, input: Any) -> Any:
        found = await process.step("find", world.do, "find")
        reached.set()
        await durable_side(process).clock.sleep(0 if len(world.seen) else 10_000_000_000)
        world.seen.append(found)
        return found

    task = asyncio.create_task(node.run(run, "p"))
    await asyncio.wait_for(reached.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await node.recover("p")).state.owner is None
    assert lives(log) == []
    assert (await node.recover("p")).state.lifecycle == "running"
    world.seen.append("on")
    assert await node.run(run, "p") == "find done"
    assert world.done == ["find"]


@pytest.mark.parametrize(("result", "error"), [(object(), UnserializableValue), ("x" * 1_048_000, LimitExceeded)])
async def test_a_result_that_cannot_be_journaled_is_a_failure(node: Node, result: Any, error: type[Exception]) -> None:
    """The process is not finished."""

    @agent("maker")
    async def run(process: Process, input: Any) -> Any:
        return result

    with pytest.raises(error):
        await node.run(run, "p")
    assert (await node.recover("p")).state.lifecycle == "failed"


async def test_an_agent_may_lead_its_own_life(node: Node, log: MemoryLog) -> None:
    """Suspended and running again: replayed, not written twice; what it leaves is brought to its end."""
    fails = True

    @agent("sleeper")
    async def run(process: Process, input: Any) -> Any:
        await process.suspend("lunch")
        await process.transition("running")
        with pytest.raises(IllegalTransition):
            await process.transition("stopped")
        if fails:
            raise ValueError("broken")
        await process.suspend("tea")

    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p")
    fails = False
    await node.run(run, "p")
    assert lives(log) == [
        "suspended", "running", "failed",
        "starting", "running", "suspended",
    ]  # fmt: skip


async def test_an_agent_does_not_end_or_rewind_its_process_itself(node: Node) -> None:
    """It returns; it is rewound from outside."""

    @agent("ender")
    async def run(process: Process, input: Any) -> Any:
        with pytest.raises(Refused, match="returning"):
            await process.finish(1)
        with pytest.raises(Refused, match="rewind"):
            await process.rewind(1)
        return 2

    assert await node.run(run, "p") == 2


async def test_an_agent_does_not_release_its_process_itself(node: Node) -> None:
    """Else every call behind it would be told that the process is closed."""

    @agent("leaver")
    async def leaver(process: Process, given: Any) -> Any:
        with pytest.raises(Refused, match="released when its code ends"):
            await process.release()
        return await process.step("go on", str, 1)

    assert await node.run(leaver, "p") == "1"


async def test_a_task_that_nobody_awaits_asks_before_its_run_is_told_to_have_ended_early(log: MemoryLog) -> None:
    """Answered at once, the main code never waits; the task that once ran beside it has its turn all the same."""
    broken = [1]

    @agent("sloppy")
    async def sloppy(process: Process, given: Any) -> Any:
        async def beside() -> None:
            await process.step("beside", str, 1)

        task = asyncio.create_task(beside())
        await process.step("main", str, 2)
        await process.step("main", str, 3)
        if broken:
            raise ValueError(broken.pop())
        return "done" if task else ""

    async with Node.in_memory(log) as node:
        with pytest.raises(ValueError, match="1"):
            await node.run(sloppy, "p")
        assert "~1/beside:1" in (await node.recover("p")).state.calls
    async with Node.in_memory(log) as node:
        assert await node.run(sloppy, "p") == "done"


async def test_a_tool_call_without_its_result_keeps_nobody_from_going_on(log: MemoryLog) -> None:
    """The machine dies between a model's tool call and its result: the tool is called, the conversation is whole.

    OpenAI Agents #4827: the session was never usable again.
    """
    deaths, asked = [1], []

    async def model(request: Any) -> Any:
        asked.append(request)
        return {"role": "assistant", "tool_calls": [{"id": "c1", "name": "look"}]}

    async def look() -> str:
        if deaths:
            deaths.clear()
            await cut_here()
        return "found"

    @agent("asker")
    async def asker(process: Process, given: Any) -> Any:
        answer = await process.decide("next", model, {"messages": []})
        await process.say("assistant", tool_calls=answer["tool_calls"])
        found = await process.tool("look", look)
        await process.say("tool", found, tool_call_id="c1")
        return [(one.role, one.tool_call_id) for one in process.state.conversation]

    async with Node.in_memory(log) as node:
        await cut_off(node.run(asker, "p"))
        assert [one.role for one in (await node.recover("p")).state.conversation] == ["assistant"]
    async with Node.in_memory(log) as node:
        assert await node.run(asker, "p") == [("assistant", None), ("tool", "c1")]
    assert len(asked) == 1


async def test_what_is_no_agent_is_not_run(node: Node) -> None:
    """A function without ``@agent``, as a run and as a child: said, not an AttributeError; nothing is claimed."""

    async def bare(process: Process, given: Any) -> None: ...

    @agent("parent")
    async def parent(process: Process, given: Any) -> Any:
        return await process.spawn(bare, "p/child").result()  # type: ignore[call-overload]

    with pytest.raises(Refused, match="only an agent"):
        await node.run(bare, "bare")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="only an agent"):
        await node.run(parent, "p")
    assert (await node.recover("bare", missing_ok=True)).state.epoch == 0


async def test_an_agent_is_resumed_after_a_rewind(node: Node, log: MemoryLog) -> None:
    """What was forgotten runs again; what came before does not."""
    world = World()
    world.break_at = "end"
    run = refunder(world)
    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p", {"order": "o-1"})
    async with node.open("p") as process:
        seqs = {call: state.seq for call, state in process.state.calls.items()}
        await process.rewind(seqs["#3"])
    world.break_at = None
    assert await node.run(run, "p") == {"paid": "pay done"}
    assert world.done == ["find", "pay", "pay"]
    keys = [body.idempotency_key for body in bodies(log) if isinstance(body, b.StepEnded)]
    assert keys == ["p/find:1", "p/pay:1", "p/pay:1~1"]


async def test_a_fork_of_an_agents_process_goes_on_from_there(node: Node) -> None:
    """It replays what its parent remembers, as the same agent, with the same input: nobody has to give it again."""
    world = World()
    world.break_at = "end"
    with pytest.raises(ValueError, match="broken"):
        await node.run(refunder(world), "p", {"order": "o-1"})
    async with node.fork("p", "child") as child:
        agent_of_the_fork = child.state.agent
    assert agent_of_the_fork == (await node.recover("p")).state.agent
    with pytest.raises(AgentMismatch, match="another input"):
        await node.run(refunder(world), "child", {"order": "o-2"})
    world.break_at = None
    assert await node.run(refunder(world), "child") == {"paid": "pay done"}
    assert world.done == ["find", "pay"]


async def test_a_fork_whose_content_and_input_are_larger_than_an_entry_has_both() -> None:
    """A state that holds both can be forked."""
    log = MemoryLog(partitions=1, limits=Limits(record_bytes=2_000, state_bytes=8_000))

    @agent("large")
    async def run(process: Process, given: str) -> None:
        await process.update("a", "x" * 1_200)
        raise ValueError("stop here")

    async with Node.in_memory(log) as node:
        with pytest.raises(ValueError, match="stop here"):
            await node.run(run, "p", "y" * 1_200)
        async with node.fork("p", "child") as child:
            state = child.state
        assert state.context == {"a": "x" * 1_200}
        assert state.agent is not None
        assert state.agent.input == "y" * 1_200


async def test_a_fork_of_what_was_before_the_agent_began_is_nobodys(node: Node) -> None:
    """Any agent may begin there, with any input."""
    world = World()
    async with node.open("p") as process:
        await process.update("asked", 1)
    await node.run(refunder(world), "p", {"order": "o-1"})
    async with node.fork("p", "child", at_seq=1) as child:
        assert child.state.agent is None
    assert await node.run(refunder(world), "child", {"order": "o-2"}) == {"paid": "pay done"}


def held_on_one(reached: asyncio.Event, go_on: asyncio.Event, by: Callable[[AgentNode], str]) -> Agent:
    """An agent that writes ``by`` and its end; between them it waits to go on, on the node called one."""

    @agent("slow")
    async def run(process: Process, input: Any) -> Any:
        await process.update("by", by(process.node))
        if process.node.node_id == "one":
            reached.set()
            await go_on.wait()
        await process.update("end", True)
        return process.node.node_id

    return run


async def test_two_runs_of_one_process_are_refused_on_a_node_and_fence_across_nodes(log: MemoryLog) -> None:
    """The one that lost is told, though the code of the other one diverged."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    run = held_on_one(reached, go_on, lambda node: node.node_id)

    async with Node.in_memory(log, node_id="one") as one, Node.in_memory(log, node_id="two") as two:
        task = asyncio.create_task(one.run(run, "p"))
        await asyncio.wait_for(reached.wait(), 60)
        with pytest.raises(AlreadyOpen):
            await one.run(run, "p")
        with pytest.raises(ReplayDivergence):  # its node's name is no input: the replay says so
            await two.run(run, "p", take_over=True)
        go_on.set()
        with pytest.raises(Fenced):
            await task


async def test_the_result_of_the_run_that_took_over_stands(log: MemoryLog) -> None:
    """What the other one makes meanwhile is fenced."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    run = held_on_one(reached, go_on, lambda node: "anybody")

    async with Node.in_memory(log, node_id="one") as one, Node.in_memory(log, node_id="two") as two:
        task = asyncio.create_task(one.run(run, "p"))
        await asyncio.wait_for(reached.wait(), 60)
        assert await two.run(run, "p", take_over=True) == "two"
        go_on.set()
        with pytest.raises(Fenced):
            await task
        assert (await one.recover("p")).state.result == "two"


async def test_an_error_of_another_process_is_not_taken_for_the_result(node: Node) -> None:
    """An agent that opens a finished process gets its own error."""

    @agent("curious")
    async def run(process: Process, input: Any) -> Any:
        async with node.open("done"):
            pass

    async with node.open("done") as process:
        await process.finish()
    with pytest.raises(ProcessFinished):
        await node.run(run, "p")
