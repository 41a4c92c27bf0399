"""The permissive replay: answers by what was asked, wherever it stood; what has none runs, and is noted."""

from __future__ import annotations

from typing import Any

import pytest

from counted_steps import Counted
from cuts import of_kind
from history_matchers import desk, place, remembered
from seekpoint.producers import Node, Process
from seekpoint.producers.durable.replay.history_matcher import Difference
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayDivergence


async def test_permissive_serves_by_what_was_asked_wherever_it_stood() -> None:
    """Reordered and renamed positions do not matter."""
    records = remembered(("a:1", 1, "x"), ("b:1", 2, "y"))
    loose = desk(records, strict=False)
    assert place(loose, "b", "y").record is records["b:1"]
    assert place(loose, "a", "x").record is records["a:1"]
    loose.check_read()


async def test_permissive_gives_the_nth_equal_request_the_nth_answer() -> None:
    """Two different answers to the same question stay two."""
    records = remembered(("ask:1", 1, "q"), ("ask:2", 2, "q"))
    loose = desk(records, strict=False)
    place(loose, "new", "other")
    assert [place(loose, "ask", "q").record for _ in range(3)] == [records["ask:1"], records["ask:2"], None]


async def test_permissive_says_where_it_diverged() -> None:
    """Only while something of the history is left: what comes after is no divergence."""
    said: list[Difference] = []
    loose = desk(remembered(("a:1", 1, "x")), strict=False, on_difference=said.append)
    changed = place(loose, "a", "changed")
    assert (changed.key, changed.record) == ("a:1~", None)
    assert [(one.key, one.kind, one.expected, one.actual) for one in said] == [("a:1", "input", "x", "changed")]
    place(loose, "a", "x")
    place(loose, "later", "z")
    assert len(said) == 1


async def test_permissive_does_not_mind_what_is_left() -> None:
    """Code that asks less than its history ends."""
    loose = desk(remembered(("a:1", 1)), strict=False)
    loose.check_read()
    assert (loose.unread(), loose.divergence) == (["a:1"], None)


async def test_permissive_never_takes_the_key_of_something_else() -> None:
    """What is remembered stays what it is."""
    said: list[Difference] = []
    loose = desk(remembered(("old:1", 1), ("pay:1", 2)), strict=False, on_difference=said.append)
    assert place(loose, "new", "other").key == "new:1"
    assert [(one.key, one.expected, one.actual) for one in said] == [("new:1", "old:1", "new:1")]
    assert loose.place("step", "pay", "another").key == "pay:1~"


async def test_permissive_makes_no_effect_in_place_of_one_that_was_made() -> None:
    """A call of its name with another request would pay twice. Once the record has answered, there may be more."""
    records = remembered(("7/x/pay:1", 1, "one"), ("undo/pay:1", 0, "u"), kind="effect")
    for key in (None, "pay"):
        loose = desk(records, strict=False)
        with pytest.raises(ReplayDivergence):
            loose.place("effect", "pay", "another", key)
    loose = desk(records, strict=False)
    assert loose.place("effect", "refund", "another").record is None
    assert loose.place("effect", "pay", "one").record is records["7/x/pay:1"]
    assert loose.place("effect", "pay", "another").record is None


async def test_what_stands_aside_answers_who_asks_the_same() -> None:
    """After a permissive run; strict, and only once. Nobody has to ask."""
    records = remembered(("a:1!7", 0, "x"), ("pay:1", 0, "y"))
    again = desk(records)
    assert place(again, "b", "x").record is records["a:1!7"]
    assert place(again, "b", "x").record is None
    again.check_read()
    assert place(again, "pay", "y").record is records["pay:1"]


async def test_permissive_runs_what_has_no_answer_and_notes_it(node: Node, log: MemoryLog) -> None:
    """The next run is answered from both."""
    async with node.open("p") as process:
        await process.step("a", Counted("a"), 1)
        await process.step("b", Counted("b"), 1)
    body = Counted("new")

    async def changed(process: Process) -> list[Any]:
        return [await process.step("a", body, 2), await process.step("b", body, 1)]

    async with node.open("p", replay="permissive") as process:
        assert await changed(process) == ["new", "b"]
    assert [(one.key, one.kind) for one in of_kind(log, b.Diverged)] == [("a:1", "input")]
    async with node.open("p", replay="permissive") as process:
        assert await changed(process) == ["new", "b"]
    assert len(body.runs) == 1
