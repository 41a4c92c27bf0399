"""The replay check of code that changed: what differs is named, where it does. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from open_processes import durable_side
from replay_checks import Code, World, checked, history, made, ran, until
from seekpoint.producers import Node, Process
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def test_a_prompt_that_changed_is_named(node: Node) -> None:
    """By its first difference."""
    world = World()

    def code(text: str) -> Code:
        async def run(process: Process, input: Any) -> Any:
            await process.step("find", world.do, 1)
            return await process.decide("plan", world.ask, {"messages": [{"content": "a"}, {"content": text}]})

        return run

    entries = await ran(node, code("old"))
    runs = world.runs
    found = await checked(code("new"), entries)
    assert (found.ok, found.calls, world.runs) == (False, 1, runs)
    assert found.divergence is not None
    assert (found.divergence.kind, found.divergence.key) == ("prompt", "plan:1")
    assert found.divergence.difference == '$.messages[1].content: "old" is now "new"'
    assert found.divergence.seq is not None


async def test_payloads_alone_make_a_difference(node: Node) -> None:
    """The same calls in the same order with another argument are not the same (what ActiveGraph lets pass)."""
    world = World()

    def code(amount: Any) -> Code:
        async def run(process: Process, input: Any) -> Any:
            return await process.step("pay", world.do, amount)

        return run

    entries = await ran(node, code(1))
    for amount in (2, 1.0, True, "1"):
        found = (await checked(code(amount), entries)).divergence
        assert found is not None
        assert (found.kind, found.key) == ("input", "pay:1")


async def test_real_tools_are_never_run(node: Node) -> None:
    """Not even where the code asks something that has no answer (what ActiveGraph's strict replay runs)."""
    world = World()

    def code(*names: str) -> Code:
        async def run(process: Process, input: Any) -> Any:
            for name in names:
                await process.step(name, world.do, 1)
                await process.effect(name, world.do, 1)
                await process.sample(name, lambda: world.do())
            await asyncio.sleep(0)

        return run

    entries = await ran(node, code("a", "b"))
    runs = world.runs
    for names in ((), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "a"), ("c",)):
        found = await checked(code(*names), entries)
        assert found.ok is (names == ("a", "b"))
    assert world.runs == runs


async def test_a_result_that_changed_is_a_divergence(node: Node) -> None:
    """The gravestone has it, and the history before tells how it came about."""
    world = World()

    def code(more: int) -> Code:
        async def run(process: Process, input: Any) -> Any:
            return {"n": input["n"] + more, "did": await process.step("a", world.do)}

        return run

    entries = await ran(node, code(1), {"n": 1})
    assert (await checked(code(1), entries)).ok
    found = (await checked(code(2), entries)).divergence
    assert found is not None
    assert (found.kind, found.difference) == ("result", "$.n: 2 is now 3")


async def test_what_is_over_has_no_further_call(node: Node) -> None:
    """A call more at the end of a finished process, or of a turn that is over: the history does not have it."""
    world = World()

    def code(extra: str | None) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do)
                if extra == "in turn":
                    await process.step("b", world.do)
                if turn.number == 2:
                    break
            if extra == "at the end":
                await process.step("b", world.do)

        return run

    entries = await ran(node, code(None))
    for extra, key, expected in (("in turn", "1/b:1", "the result"), ("at the end", "2/b:1", "the result")):
        found = (await checked(code(extra), entries)).divergence
        assert found is not None
        assert (found.kind, found.key, found.expected) == ("length", key, expected)
    unfinished = entries[: next(at for at, one in enumerate(entries) if isinstance(one.entry.body, b.TurnEnded)) + 1]
    found = (await checked(code("in turn"), unfinished)).divergence
    assert found is not None
    assert (found.kind, found.key, found.expected) == ("length", "1/b:1", "the end of turn 1")


async def test_a_call_that_is_gone_is_a_divergence(node: Node) -> None:
    """In a turn that is over too: the state has forgotten it, the history has not."""
    world = World()

    def code(turns: int, *, less_in: int = 0) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do)
                if turn.number != less_in:
                    await process.step("b", world.do)
                if turn.number == turns:
                    break

        return run

    entries = await ran(node, code(3))
    for other, key in ((code(3, less_in=1), "1/b:1"), (code(3, less_in=3), "3/b:1"), (code(2), "3/a:1")):
        found = (await checked(other, entries)).divergence
        assert found is not None
        assert (found.kind, found.key) == ("length", key)


async def test_changes_behind_patched_pass(node: Node) -> None:
    """What is over ran without them; what is under way may go on with them."""
    world = World()

    def code(*, is_new: bool) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do)
                if is_new and process.patched("more"):
                    await process.step("b", world.do)
                if turn.number == input:
                    break

        return run

    entries = await ran(node, code(is_new=False), 3)
    assert (await checked(code(is_new=True), entries)).ok
    unfinished = [one for one in entries if not isinstance(one.entry.body, b.Finished)]
    found = await checked(code(is_new=True), unfinished)
    assert (found.ok, found.ended_at) == (True, "3/b:1")


async def test_a_failure_is_the_end_only_if_it_was_recorded(node: Node) -> None:
    """A process that failed so is replayed to its failure; code that fails where it went on differs."""
    world = World()

    def code(error: Exception | None, *, early: bool = False) -> Code:
        async def run(process: Process, input: Any) -> Any:
            if early and error:
                raise error
            await process.step("a", world.do)
            if error:
                raise error

        return run

    entries = await ran(node, code(ValueError("boom")))
    found = await checked(code(ValueError("boom, but otherwise")), entries)
    assert (found.ok, found.ended_by) == (True, "error")
    assert str(found) == "1 call replayed, to the recorded failure"
    for other in (code(KeyError("x")), code(ValueError("boom"), early=True)):
        differs = (await checked(other, entries)).divergence
        assert differs is not None
        assert differs.kind == "error"
    fixed = await checked(code(None), entries)
    assert fixed.ok, "a process that failed is run again by code that does not fail there"


async def test_a_cancelled_process_is_checked_to_where_it_was_told(node: Node) -> None:
    """Its code is told to stop at the same call."""
    world, told = World(), []

    async def code(process: Process, input: Any) -> Any:
        await process.step("a", world.do)
        try:
            await process.gate("never")
        finally:
            told.append(durable_side(process).cancellation.is_accepted)

    running = asyncio.create_task(node.run(made(code), "p"))
    await until(node, lambda state: state.lifecycle == "awaiting")
    await node.cancel("p", "enough")
    await asyncio.wait({running})
    running.exception()
    found = await checked(code, await history(node))
    assert (found.ok, found.ended_by, found.calls) == (True, "cancelled", 1)
    assert told == [True, True]


async def test_a_cancelled_process_may_say_it_in_words_of_its_own(node: Node) -> None:
    """A task group wraps what its tasks were told; the run was cancelled all the same, and so is the check."""
    world = World()

    async def code(process: Process, input: Any) -> Any:
        await process.step("a", world.do)
        async with asyncio.TaskGroup() as group:
            group.create_task(process.gate("never"))
            group.create_task(process.gate("nor this"))

    running = asyncio.create_task(node.run(made(code), "p"))
    await until(node, lambda state: len(state.calls) == 3 and state.lifecycle == "awaiting")
    await node.cancel("p", "enough")
    await asyncio.wait({running})
    assert isinstance(running.exception(), Cancelled)
    found = await checked(code, await history(node))
    assert (found.ok, found.ended_by) == (True, "cancelled"), found


async def test_what_was_taken_back_later_was_done_when_the_code_came_by(node: Node) -> None:
    """An effect that its failing process compensated is answered as it was then."""
    world = World()

    async def code(process: Process, input: Any) -> Any:
        await process.effect("book", world.do, 1, compensate=undo)
        try:
            await process.step("fails", world.fails)
        except LookupError:
            await process.compensate()
            raise

    entries = await ran(node, code)
    assert any(isinstance(one.entry.body, b.ObligationSettled) for one in entries)
    runs = world.runs
    found = await checked(code, entries)
    assert (found.ok, found.ended_by, found.calls) == (True, "error", 2), str(found)
    owed = next(at for at, one in enumerate(entries) if isinstance(one.entry.body, b.ObligationSettled))
    found = await checked(code, entries[: owed - 1])
    assert (found.ok, found.ended_at) == (True, "compensate")
    assert (world.runs, undone) == (runs, [1])


undone: list[int] = []


async def undo(what: int) -> None:
    undone.append(what)


async def test_mail_is_remembered(node: Node) -> None:
    """Whoever received is answered from the history, in its turn; where none came, the history ends."""

    def code(*names: str) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for _ in process.turns():
                break
            return [(await process.receive(name)).payload for name in names]

        return run

    await node.signal("p", "go", 1)
    entries = await ran(node, code("go"))
    found = await checked(code("go"), entries)
    assert (found.ok, found.calls, found.ended_by) == (True, 1, "result")
    found = await checked(code("go", "more"), entries)
    assert found.divergence is not None
    assert (found.divergence.kind, found.ended_at) == ("length", "1/receive:2")
