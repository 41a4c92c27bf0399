"""Children: processes that an agent starts. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import cuts, of_kind, on_node, until
from seekpoint.producers import Agent, Node, Process, VirtualClock, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled, Refused, ReplayDivergence


class Family:
    """A parent of two, and what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def do(self, what: str) -> str:
        self.done.append(what)
        return f"{what} done"

    async def undo(self, what: str) -> None:
        self.done.append(f"un{what}")

    def child(self) -> Agent:
        @agent("child")
        async def run(process: Process, input: Any) -> Any:
            found = await process.step("work", self.do, input)
            if input == "bad":
                raise ValueError("broken")
            if input == "waits":
                await process.effect("book", self.do, "book", compensate=self.undo)
                await process.gate("go")
            return found

        return run

    def parent(self, *inputs: str) -> Agent:
        @agent("parent")
        async def run(process: Process, input: Any) -> Any:
            children = [process.spawn(self.child(), f"p.{number}", what) for number, what in enumerate(inputs)]
            await process.update("spawned", len(children))
            return [await told(child.result()) for child in children]

        return run


async def told(call: Any) -> Any:
    try:
        return await call
    except ValueError as exc:
        return f"{type(exc).__name__}: {exc}"


async def test_children_are_processes_and_their_results_are_remembered(node: Node, log: MemoryLog) -> None:
    """Results and failures alike; each has a journal of its own."""
    family = Family()
    wanted = ["a done", "ValueError: broken", "b done"]
    assert await node.run(family.parent("a", "bad", "b"), "p") == wanted
    assert sorted(family.done) == ["a", "b", "bad"]
    spawned = of_kind(log, b.ChildSpawned)
    assert [(one.key, one.child_id, one.agent, one.input) for one in spawned] == [
        ("child:1", "p.0", "child", '"a"'), ("child:2", "p.1", "child", '"bad"'), ("child:3", "p.2", "child", '"b"'),
    ]  # fmt: skip
    assert sorted(one.outcome for one in of_kind(log, b.ChildEnded)) == ["failed", "succeeded", "succeeded"]
    assert (await node.recover("p.0")).state.result == "a done"
    assert (await node.recover("p.1")).state.lifecycle == "failed"


async def test_a_child_begins_once_its_parent_has_written_it_down(
    node: Node, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a parent that dies would not know what it had started."""
    began: list[str] = []
    run = node.run

    async def noted(agent: Agent, process_id: str, *given: Any, **how: Any) -> Any:
        began.append(process_id)
        return await run(agent, process_id, *given, **how)

    monkeypatch.setattr(node, "run", noted)
    async with node.open("p") as process:
        log.refuse_appends()
        child = process.spawn(Family().child(), "c", "a")
        await asyncio.sleep(0.05)
        was_early = list(began)
        log.heal()
        assert not was_early
        assert await asyncio.wait_for(child.result(), 60) == "a done"


async def test_a_family_survives_a_crash_anywhere() -> None:
    """Cut after each entry: what a journal says was done is not done again, and the result is the same."""
    whole = MemoryLog(partitions=1)
    wanted = await on_node(whole, lambda node: node.run(Family().parent("a", "bad", "b"), "p"))
    for log in cuts(whole):
        ended = {
            what
            for number, what in enumerate(("a", "bad", "b"))
            for _ in of_kind(log, b.StepEnded, f"p.{number}")
        }  # fmt: skip
        again = Family()
        assert await on_node(log, lambda node: resumed(node, again)) == wanted  # noqa: B023  # awaited here
        assert not ended & set(again.done)
        assert len(of_kind(log, b.ChildSpawned)) == len(of_kind(log, b.ChildEnded)) == 3


async def resumed(node: Node, family: Family) -> Any:
    """As after ``owner_timeout_s``: the dead owner's processes are free."""
    for process_id in ("p.0", "p.1", "p.2"):
        state = (await node.recover(process_id, missing_ok=True)).state
        if state.owner is not None:
            async with node.open(process_id, take_over=True):
                pass
    return await node.run(family.parent("a", "bad", "b"), "p", take_over=True)


async def test_a_child_that_ended_elsewhere_is_answered_from_what_it_left(node: Node, log: MemoryLog) -> None:
    """Its parent was dead meanwhile; nothing runs."""
    family = Family()
    fails = True

    @agent("parent")
    async def run(process: Process, input: Any) -> Any:
        child = process.spawn(family.child(), "c", "waits")
        if fails:
            await until(lambda: of_kind(log, b.GateOpened, "c"))
            raise OSError("dies")
        return await child.result()

    with pytest.raises(OSError, match="dies"):
        await node.run(run, "p")
    assert (await node.recover("c")).state.owner is None
    await node.approve("c", "go")
    async with Node.in_memory(log, clock=VirtualClock()) as other:
        assert await asyncio.wait_for(other.run(family.child(), "c"), 60) == "waits done"
    done, fails = list(family.done), False
    assert await asyncio.wait_for(node.run(run, "p"), 60) == "waits done"
    assert family.done == done


async def test_a_child_that_another_node_runs_is_waited_for(node: Node, log: MemoryLog) -> None:
    """It is not taken from an owner that looks alive, and its result is taken in."""
    family = Family()
    async with Node.in_memory(log, clock=VirtualClock()) as other:
        elsewhere = asyncio.create_task(other.run(family.child(), "p.0", "waits"))
        await until(lambda: of_kind(log, b.GateOpened, "p.0"))
        parent = asyncio.create_task(node.run(family.parent("waits"), "p"))
        await asyncio.sleep(0.3)
        assert not parent.done()
        await node.approve("p.0", "go")
        assert await asyncio.wait_for(parent, 60) == ["waits done"]
        assert await elsewhere == "waits done"
    assert family.done == ["waits", "book"]


async def test_a_parents_cancel_is_its_childrens(node: Node, log: MemoryLog) -> None:
    """Asked once; they take back what they did, before the parent does."""
    family = Family()
    run = asyncio.create_task(node.run(family.parent("waits", "a"), "p"))
    await until(lambda: of_kind(log, b.GateOpened, "p.0") and len(of_kind(log, b.ChildEnded)) == 1)
    await node.cancel("p", "stop")
    with pytest.raises(Cancelled) as caught:
        await asyncio.wait_for(run, 60)
    assert caught.value.process_id == "p"
    assert family.done.count("unbook") == 1
    state = (await node.recover("p.0")).state
    assert (state.lifecycle, state.cancelled) == ("stopped", "its parent p was cancelled")
    assert len(of_kind(log, b.CancelRequested, "p.0")) == 1
    assert [one.outcome for one in of_kind(log, b.ChildEnded)] == ["succeeded", "failed"]
    with pytest.raises(Cancelled):
        await node.run(family.parent("waits", "a"), "p")


async def test_a_child_that_was_cancelled_by_itself_fails_for_its_parent(node: Node, log: MemoryLog) -> None:
    """The parent is told whose cancel it was, and goes on if it likes."""
    family = Family()

    @agent("parent")
    async def run(process: Process, input: Any) -> Any:
        try:
            return await process.spawn(family.child(), "c", "waits").result()
        except Cancelled as exc:
            return [exc.process_id, await process.step("then", family.do, "then")]

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: of_kind(log, b.GateOpened, "c"))
    await node.cancel("c")
    assert await asyncio.wait_for(task, 60) == ["c", "then done"]


async def test_children_end_before_their_turn_does(node: Node, log: MemoryLog) -> None:
    """Asked for or not: what ended leaves the state with the turn."""
    family = Family()

    @agent("parent")
    async def run(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            process.spawn(family.child(), f"c{turn.number}", f"{turn.number}")
            if turn.number == 2:
                break
        return "over"

    assert await node.run(run, "p") == "over"
    kinds = [body.KIND for body in _bodies(log) if body.KIND in ("child_ended", "turn_ended")]
    assert kinds == ["child_ended", "turn_ended", "child_ended"]
    assert family.done == ["1", "2"]


def _bodies(log: MemoryLog) -> list[Any]:
    return of_kind(log, object)


async def test_another_child_is_another_question(node: Node) -> None:
    """Another id or another input diverges; a process is not its own child, and a shared value is no process."""
    family = Family()
    async with node.open("p") as process:
        assert await process.spawn(family.child(), "c", "a").result() == "a done"
        for wrong in ("p", "shared:x"):
            with pytest.raises(Refused):
                process.spawn(family.child(), wrong)
    for child_id, asked in (("d", "a"), ("c", "b")):
        async with node.open("p") as process:
            with pytest.raises(ReplayDivergence) as caught:
                process.spawn(family.child(), child_id, asked)
        assert caught.value.kind == "input"
