"""Patches: code that changed while a run was under way, and which way it goes."""

from __future__ import annotations

from typing import Any

from counted_steps import Counted, twice
from history_matchers import desk, place, remembered
from seekpoint.producers import Node, Process


async def test_new_code_is_marked_and_runs_changed_code() -> None:
    """No history is left to contradict it."""
    assert desk().patched("new-prompt", frozenset()) == (True, "new-prompt")


async def test_a_marked_history_runs_the_changed_code_again() -> None:
    """Whatever is left to replay."""
    assert desk(remembered(("a:1", 1))).patched("x", ("x",)) == (True, None)


async def test_an_unmarked_history_runs_the_old_code() -> None:
    """And goes on so, once it is past its records: half of each would be a third program."""
    again = desk(remembered(("a:1", 1)))
    assert again.patched("x", frozenset()) == (False, None)
    place(again, "a")
    assert again.patched("x", frozenset()) == (False, None)


async def test_a_turn_decides_for_itself() -> None:
    """A loop without end takes the change with its next turn; code before the loop keeps what it has."""
    again = desk(remembered(("a:1", 1), ("2/a:1", 1)))
    assert again.patched("x", frozenset()) == (False, None)
    again.begin_turn(2)
    assert again.patched("x", frozenset()) == (False, None)
    again.begin_turn(3)
    assert again.patched("x", frozenset()) == (True, "3/x")
    later = desk(remembered(("a:1", 1), ("4/a:1", 1)))
    assert later.patched("x", frozenset({"3/x"})) == (False, None)
    later.begin_turn(4)
    assert later.patched("x", frozenset({"3/x"})) == (True, None)


async def test_patched_code_runs_where_the_history_has_no_say(node: Node) -> None:
    """A run that began without the change keeps the old way; a new one takes the new way and keeps it."""
    old, new = Counted("old"), Counted("new")

    async def first(process: Process) -> Any:
        return await process.step("ask", old)

    async def second(process: Process) -> Any:
        if process.patched("better-question"):
            return await process.step("ask", new, "please")
        return await process.step("ask", old)

    async with node.open("p") as process:
        await first(process)
    assert await twice(node, second) == ["old", "old"]
    for _ in range(2):
        async with node.open("q") as process:
            assert await second(process) == "new"
    assert (len(old.runs), len(new.runs)) == (1, 1)
