"""What differs between two processes, or two moments of one. In memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Refused, UnknownProcess

choices: dict[str, Any] = {}


@agent("triage")
async def triage(process: Process, order: int) -> str:
    """Decide by what the test says, and act by it."""
    choice = await process.decide("choose", lambda request: choices["answer"], {"order": order})
    await process.say("assistant", f"I {choice}")
    await process.update("choice", choice)
    await process.step(choice, lambda: order)
    await process.step("close", lambda given: given, choice)
    return str(choice)


async def two_runs(node: Node) -> None:
    for process_id, answer in (("a", "pay"), ("b", "reject")):
        choices["answer"] = answer
        await node.run(triage, process_id, 1)


async def test_two_runs_differ_where_their_answers_do() -> None:
    """Also finished ones; calls are compared by key, requests and answers by their first difference."""
    async with Node.in_memory(MemoryLog()) as node:
        await two_runs(node)
        found = await node.diff("a", "b")
        assert not found.is_empty
        assert found.context == {"choice": ("pay", "reject")}
        assert (found.same_messages, [one["content"] for one in found.right_messages]) == (0, ["I reject"])
        changed = {one.key: one.difference for one in found.changed}
        assert changed["choose:1"] == 'answer $: "pay" is now "reject"'
        assert changed["close:1"] == 'request $[0]: "pay" is now "reject"'
        assert [one.key for one in found.only_left] == ["pay:1"]
        assert [(one.key, one.left, one.right) for one in found.only_right] == [("reject:1", None, "succeeded")]
        assert (found.left.lifecycle, found.right.lifecycle, found.same_calls) == ("finished", "finished", 0)


async def test_a_process_is_compared_with_its_own_past() -> None:
    """``PROCESS_ID@SEQ``; a process whose own name looks so is meant itself."""
    async with Node.in_memory(MemoryLog()) as node:
        for name in ("p", "p@1"):
            async with node.open(name) as process:
                await process.update("a", 1)
                await process.say("user", "one")
                await process.update("b", [2])
        found = await node.diff("p@2", "p")
        assert (found.context, found.missing) == ({"b": (None, [2])}, {"b": "left"})
        assert (found.left.seq, found.same_messages, found.left.cost_usd) == (2, 1, None)
        assert not found.is_same_content
        assert (await node.diff("p@1", "p")).is_empty
        with pytest.raises(Refused, match="no such seq"):
            await node.diff("p@99", "p")
        with pytest.raises(UnknownProcess):
            await node.diff("p", "nobody@2")


async def test_calls_of_turns_that_are_over_are_compared() -> None:
    """The state has dropped them."""

    @agent("turning")
    async def turning(process: Process, second: int) -> None:
        async for turn in process.turns():
            await process.step("look", lambda number: number * second, turn.number)
            if turn.number == 3:
                break

    async with Node.in_memory(MemoryLog()) as node:
        await node.run(turning, "a", 1)
        await node.run(turning, "b", 2)
        found = await node.diff("a", "b")
        assert {one.key: one.difference for one in found.changed} == {
            "1/look:1": "answer $: 1 is now 2",
            "2/look:1": "answer $: 2 is now 4",
            "3/look:1": "answer $: 3 is now 6",
        }


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=6), st.data())
async def test_a_fork_does_not_differ_from_its_parent_at_that_moment(
    writes: list[tuple[str, int]], data: st.DataObject
) -> None:
    """A law: fork, then diff is empty, and whatever the parent does next is the difference."""
    async with Node.in_memory(MemoryLog()) as node:
        async with node.open("parent") as process:
            await process.update("begun", value=True)
            for key, value in writes:
                await (process.update(key, value) if value else process.say("user", key))
        last = (await node.recover("parent")).state.seq
        seq = data.draw(st.integers(1, last))
        async with node.fork("parent", "child", at_seq=seq):
            pass
        found = await node.diff(f"parent@{seq}", "child")
        assert found.is_empty
        assert found.is_same_content
