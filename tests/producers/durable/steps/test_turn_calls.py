"""Turns: a loop without end whose state and resume cost what one turn has. In memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from cuts import of_kind, until
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused, ReplayDivergence


class World:
    """What a test's agent did, and where it breaks."""

    def __init__(self, break_at: str = "") -> None:
        self.done: list[str] = []
        self.seen: list[Any] = []
        self.break_at = break_at

    async def do(self, what: str) -> str:
        self.done.append(what)
        return what

    def maybe_break(self, where: str) -> None:
        if self.break_at == where:
            raise ValueError(f"broken at {where}")


def looper(world: World, turns: int = 3) -> Agent:
    """Greets, then counts in turns; breaks where it is told."""

    @agent("looper")
    async def run(process: Process, input: Any) -> Any:
        await process.update("name", await process.step("greet", world.do, "greet"))
        world.seen.append(("before", process.state.context))
        world.maybe_break("before")
        async for turn in process.turns():
            world.seen.append((turn.number, process.state.context, len(process.state.conversation)))
            await process.say("user", str(turn.number))
            await process.step("work", world.do, f"{turn.number}a")
            await process.update("count", turn.number)
            world.maybe_break(f"{turn.number}")
            await process.step("work", world.do, f"{turn.number}b")
            if turn.number == turns:
                break
        world.maybe_break("after")
        return [await process.step("bye", world.do, "bye"), process.state.context]

    return run


DONE = ["greet", "1a", "1b", "2a", "2b", "3a", "3b", "bye"]


async def test_each_turn_has_its_own_calls(node: Node, log: MemoryLog) -> None:
    """What ended leaves the state; the last one stays open, and what follows the loop belongs to it."""
    world = World("after")
    with pytest.raises(ValueError, match="after"):
        await node.run(looper(world), "p")
    state = (await node.recover("p")).state
    assert state.turn == 2
    assert sorted(state.calls) == ["#2", "3/#1", "3/#3", "3/work:1", "3/work:2", "greet:1"]
    assert [one.number for one in of_kind(log, b.TurnEnded)] == [1, 2]


@pytest.mark.parametrize("where", ["before", "1", "2", "3", "after"])
async def test_a_resume_starts_at_the_turn_under_way(node: Node, log: MemoryLog, where: str) -> None:
    """With context and conversation as they were when it began; nothing is done or written twice."""
    world = World(where)
    with pytest.raises(ValueError, match="broken"):
        await node.run(looper(world), "p")
    broke_with = list(world.seen)
    world.break_at = ""
    assert await node.run(looper(world), "p") == ["bye", {"name": "greet", "count": 3}]
    assert world.done == DONE
    assert [said.content for said in of_kind(log, b.MessageSaid)] == ["1", "2", "3"]
    again = world.seen[len(broke_with) :]
    assert again[0] == broke_with[0] == ("before", {"name": "greet"})
    if where not in ("before", "1"):
        assert again[1] == broke_with[-1]


async def test_a_turn_that_ended_just_before_the_end_is_not_run_again(node: Node, log: MemoryLog) -> None:
    """Resumed between two turns, it begins with the next; the view is the content as it is."""
    world = World()

    @agent("between")
    async def run(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            if turn.number == 3 and not world.seen:
                world.seen.append(process.state.context)
                raise ValueError("broken")
            await process.update("count", turn.number)
            if turn.number == 3:
                return process.state.context
        return None

    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p")
    assert await node.run(run, "p") == {"count": 3}
    assert world.seen == [{"count": 2}]


async def test_code_before_the_turns_must_be_as_it_was(node: Node) -> None:
    """Else its calls would be lost in the first turn."""
    world = World("2")
    with pytest.raises(ValueError, match="broken"):
        await node.run(looper(world), "p")

    @agent("looper")
    async def run(process: Process, input: Any) -> Any:
        async for _ in process.turns():
            return None

    with pytest.raises(ReplayDivergence) as caught:
        await node.run(run, "p")
    assert (caught.value.kind, caught.value.key) == ("length", "greet:1")


async def test_a_turn_that_leaves_a_call_out_diverges_at_its_end(node: Node, log: MemoryLog) -> None:
    """Before the turn's records leave the state."""
    fails = True

    def version(skip: bool) -> Agent:
        @agent("looper")
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                if turn.number == 2:
                    return None
                await process.step("a", str)
                if not skip:
                    await process.step("b", str)
                if fails:
                    raise ValueError("broken")

        return run

    with pytest.raises(ValueError, match="broken"):
        await node.run(version(skip=False), "p")
    fails = False
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(version(skip=True), "p")
    assert (caught.value.kind, caught.value.key) == ("length", "1/b:1")
    assert of_kind(log, b.TurnEnded) == []


async def test_a_turns_task_that_nobody_awaits_asks_before_the_turn_is_over() -> None:
    """Before the turns and in them: what is remembered of such a task is not taken for a call that was left out."""
    log, broken = MemoryLog(), [1]

    async def beside(process: Process, name: str) -> None:
        await process.step(name, str, 1)

    @agent("sloppy")
    async def sloppy(process: Process, given: Any) -> Any:
        tasks = [asyncio.create_task(beside(process, "before"))]
        await process.step("main", str, 0)
        async for turn in process.turns():
            tasks.append(asyncio.create_task(beside(process, "in")))
            await process.step("main", str, turn.number)
            if turn.number == 1 and broken:
                await asyncio.gather(*tasks)
                raise ValueError(broken.pop())
            if turn.number == 2:
                await asyncio.gather(*tasks)
                return len(tasks)
        raise AssertionError

    for _ in range(2):
        async with Node.in_memory(log) as node:
            with suppress(ValueError):
                assert await node.run(sloppy, "p") == 3
    assert not broken


async def test_a_fork_waits_for_the_tasks_that_were_started_before_its_turns() -> None:
    """Its main code does not wait again, so a task has had no turn of the event loop when the turns begin."""
    log, is_broken = MemoryLog(), True

    @agent("sloppy")
    async def sloppy(process: Process, given: Any) -> Any:
        async def beside() -> None:
            await process.step("beside", str, 1)

        task = asyncio.create_task(beside())
        if is_broken:
            await asyncio.sleep(0.05)  # for something outside that is there from then on
        async for _ in process.turns():
            await task
            if is_broken:
                raise ValueError("broken")
            return "done"
        raise AssertionError

    async with Node.in_memory(log) as node:
        with pytest.raises(ValueError, match="broken"):
            await node.run(sloppy, "p")
        async with node.fork("p", "fork"):
            is_broken = False
        assert await node.run(sloppy, "fork") == "done"


async def test_turns_belong_into_the_main_code_once(node: Node) -> None:
    """Neither in a step, nor in a task, nor twice."""

    async def loop(process: Process) -> None:
        async for _ in process.turns():
            return

    async with node.open("p") as process:
        with pytest.raises(Refused, match="main code"):
            await process.step("loop", lambda: loop(process))
        with pytest.raises(Refused, match="main code"):
            await asyncio.create_task(loop(process))
        await loop(process)
        with pytest.raises(Refused, match="one loop"):
            await loop(process)


async def test_a_task_may_live_through_a_turn_but_not_beyond(node: Node) -> None:
    """Its next call is refused."""
    go_on = asyncio.Event()
    body = World()

    async def background(process: Process) -> None:
        await process.step("first", body.do, "1")
        await go_on.wait()
        await process.step("second", body.do, "2")

    async with node.open("p") as process:
        async for turn in process.turns():
            if turn.number == 1:
                task = asyncio.create_task(background(process))
                await until(lambda: body.done)
                await process.step("main", body.do, "main")
            else:
                go_on.set()
                break
        with pytest.raises(Refused, match="has ended"):
            await task
    assert body.done == ["1", "main"]


async def test_a_change_of_the_code_counts_from_the_next_turn_on(node: Node, log: MemoryLog) -> None:
    """The turn under way keeps the old way, though it is resumed again."""
    world = World("2")

    def version(number: int) -> Agent:
        @agent("changer", number)
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                if number == 2 and process.patched("shout"):
                    await process.step("say", world.do, f"{turn.number}!")
                else:
                    await process.step("say", world.do, f"{turn.number}")
                world.maybe_break(str(turn.number))
                if turn.number == 4:
                    return None

        return run

    with pytest.raises(ValueError, match="at 2"):
        await node.run(version(1), "p")
    for where in ("2", "3"):
        world.break_at = where
        with pytest.raises(ValueError, match=f"at {where}"):
            await node.run(version(2), "p")
    world.break_at = ""
    await node.run(version(2), "p")
    assert world.done == ["1", "2", "3!", "4!"]
    assert [one.id for one in of_kind(log, b.PatchMarked)] == ["3/shout"]


async def test_the_state_does_not_grow_with_the_turns(node: Node) -> None:
    """As many calls after a hundred turns as after ten."""
    sizes = []

    @agent("endless")
    async def run(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            for index in range(3):
                await process.step("work", str, index)
            await process.update("count", turn.number)
            sizes.append((len(process.written.calls), process.written.content_bytes))
            if turn.number == 100:
                return None

    await node.run(run, "p")
    assert sizes[9][0] == sizes[99][0] == 4
    assert sizes[99][1] - sizes[9][1] < 20
