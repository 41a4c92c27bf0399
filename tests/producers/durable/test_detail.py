"""How much of its content a process journals: every change, one entry a turn or invocation, or none. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from cuts import bodies
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import IllegalTransition, LimitExceeded, Refused
from seekpoint.schemas.values.json_values import load

CONTENT = (
    b.ContextUpdated, b.ContextUpdatedMany, b.ContextDeleted, b.ContextPatched, b.ContextCleared, b.MessageSaid,
)  # fmt: skip


def of_kind(log: MemoryLog, *kinds: type[Any]) -> list[Any]:
    return [body for body in bodies(log) if isinstance(body, kinds)]


async def change(process: Process) -> None:
    """Every kind of change."""
    await process.update("a", 1)
    await process.update_many({"b": 2, "c": {"d": 3, "e": 4}})
    await process.patch({"c": {"d": None}, "b": None, "f": [1]})
    await process.delete("a")
    await process.change(set={"f": [1], "g": 5}, delete=["b"])
    await process.change(delete=["g"])
    await process.say("user", "hi", name="Ann")
    await process.say("assistant", [{"type": "text"}], tool_calls=[{"id": "1"}])


CHANGED = {"c": {"e": 4}, "f": [1]}


async def test_checkpoint_writes_all_changes_as_one_entry(node: Node, log: MemoryLog) -> None:
    """Seen at once, journaled when the process is left; what others read is the same as with every change."""
    async with node.open("p", detail="checkpoint") as process:
        await process.update("old", True)
        await process.clear()
        await change(process)
        assert process.state.context == CHANGED
        assert [message.role for message in process.state.conversation] == ["user", "assistant"]
        assert process.written.context == {}
    assert len(of_kind(log, b.ContentBatch)) == 1
    assert of_kind(log, *CONTENT) == []
    async with node.open("q") as process:
        await change(process)
    kept, full = (await node.recover("p")).state, (await node.recover("q")).state
    assert (kept.context, kept.conversation, kept.lifecycle) == (full.context, full.conversation, full.lifecycle)


async def test_what_was_there_before_is_changed_as_well(node: Node, log: MemoryLog) -> None:
    """Deleted, cleared, and set again."""
    async with node.open("p") as process:
        await process.update_many({"a": 1, "b": 2, "c": 3})
    async with node.open("p", detail="checkpoint") as process:
        await process.delete("a")
        await process.delete("missing")
        await process.confirm()
        assert process.written.context == {"b": 2, "c": 3}
        await process.clear()
        await process.update("a", 4)
        await process.delete("a")
        await process.update("b", 5)
    assert (await node.recover("p")).state.context == {"b": 5}
    assert [(batch.cleared, load(batch.deleted)) for batch in of_kind(log, b.ContentBatch)] == [
        (False, ["a", "missing"]), (True, ["a"]),
    ]  # fmt: skip


async def test_checkpoint_writes_at_the_end_of_an_invocation(node: Node, log: MemoryLog) -> None:
    """Before the entry that ends it."""
    async with node.open("p", detail="checkpoint") as process:
        async with process.invocation("message"):
            await change(process)
            assert process.state.invocation is not None
        assert process.written.context == CHANGED
        kinds = [type(body).__name__ for body in of_kind(log, b.ContentBatch, b.InvocationStarted, b.InvocationEnded)]
        assert kinds == ["InvocationStarted", "ContentBatch", "InvocationEnded"]


async def test_none_journals_no_content_and_everything_else(node: Node, log: MemoryLog) -> None:
    """Lifecycle, steps and errors are there."""
    with pytest.raises(ValueError, match="broken"):
        async with node.open("p", detail="none") as process:
            await change(process)
            await process.transition("starting")
            await process.record("note", 1)
            async with process.invocation("message"):
                await process.step("work", str, 1)
            assert (process.state.context, process.state.lifecycle, process.state.invocations) == (
                CHANGED,
                "starting",
                1,
            )
            raise ValueError("broken")
    assert of_kind(log, *CONTENT, b.ContentBatch, b.Custom, b.InvocationEnded) == []
    kept = of_kind(log, b.LifecycleChanged, b.StepEnded, b.ErrorRecorded, b.Released)
    assert [type(body).__name__ for body in kept] == ["LifecycleChanged", "StepEnded", "ErrorRecorded", "Released"]


async def test_a_change_that_does_not_fit_is_refused_at_once() -> None:
    """As it would be if it were journaled."""
    log = MemoryLog(limits=Limits(state_bytes=1_000))
    async with Node.in_memory(log) as node, node.open("p", detail="checkpoint") as process:
        with pytest.raises(LimitExceeded):
            await process.update("a", "x" * 2_000)
        with pytest.raises(IllegalTransition):
            await process.transition("stopping")
        assert process.state.context == {}


class World:
    def __init__(self) -> None:
        self.done: list[str] = []

    async def do(self, what: str) -> str:
        self.done.append(what)
        return what


def looper(world: World) -> Agent:
    @agent("looper")
    async def run(process: Process, input: Any) -> Any:
        await process.update("name", await process.step("greet", world.do, "hello"))
        async for turn in process.turns():
            await process.say("user", f"{turn.number} {len(process.state.conversation)}")
            await process.step("work", world.do, str(turn.number))
            await process.patch({"count": turn.number, "name": None if turn.number == 2 else "x"})
            if turn.number == 3:
                break
        await process.transition("suspended")
        return [process.state.context, [message.text for message in process.state.conversation]]

    return run


@pytest.mark.parametrize("detail", ["full", "checkpoint"])
async def test_an_agent_killed_after_any_entry_ends_with_the_same_content(detail: str) -> None:
    """Whatever it journals of it: a batch that landed without the end of its turn is not applied twice."""
    whole, world = MemoryLog(partitions=1), World()
    async with Node.in_memory(whole) as node:
        wanted = await node.run(looper(world), "p", detail=detail)
    assert wanted == [{"count": 3, "name": "x"}, ["1 0", "2 1", "3 2"]]
    for entries in range(1, whole.watermarks(0).high):
        log = MemoryLog(partitions=1)
        for batch in whole.read(0, 0, entries):
            for record in batch.records:
                log.append(0, record.key, record.value)
        async with Node.in_memory(log) as node:
            assert await node.run(looper(World()), "p", detail=detail, take_over=True) == wanted, entries


async def test_checkpoint_writes_one_entry_a_turn(node: Node, log: MemoryLog) -> None:
    """Three turns (the code before them belongs to the first), and no change beside."""
    await node.run(looper(World()), "p", detail="checkpoint")
    assert of_kind(log, *CONTENT) == []
    assert [batch.call for batch in of_kind(log, b.ContentBatch)] == ["1/#2", "2/#2", "3/#3"]


async def test_without_content_an_agent_makes_it_again(node: Node, log: MemoryLog) -> None:
    """Its code runs from the start: content in memory, steps remembered."""
    world, fails = World(), True

    @agent("forgetful")
    async def run(process: Process, input: Any) -> Any:
        await process.update("a", await process.step("work", world.do, "work"))
        if fails:
            raise ValueError("broken")
        return process.state.context

    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p", detail="none")
    fails = False
    assert await node.run(run, "p", detail="none") == {"a": "work"}
    assert world.done == ["work"]
    assert of_kind(log, *CONTENT, b.ContentBatch) == []


async def test_content_is_not_kept_back_inside_a_step_either(node: Node) -> None:
    """It would be missing when the agent runs again."""

    @agent("inner")
    async def run(process: Process, input: Any) -> Any:
        async def body() -> None:
            await process.update("a", 1)

        with pytest.raises(Refused, match="inside the body"):
            await process.step("write", body)

    await node.run(run, "p", detail="checkpoint")


async def test_what_a_failed_agent_left_unwritten_is_made_again_by_its_code(node: Node, log: MemoryLog) -> None:
    """Written as it leaves, it would be there twice."""
    fails = True

    @agent("talker")
    async def run(process: Process, input: Any) -> Any:
        await process.say("user", "hi")
        if fails:
            raise ValueError("broken")
        return len(process.state.conversation)

    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p", detail="checkpoint")
    assert of_kind(log, b.ContentBatch) == []
    fails = False
    assert await node.run(run, "p", detail="checkpoint") == 1
    assert [load(batch.messages)[0][1] for batch in of_kind(log, b.ContentBatch)] == ["hi"]
