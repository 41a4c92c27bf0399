"""Where a call stands: inside another one's body, in a task of its own, in a turn. Plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from history_matchers import desk, place, remembered
from seekpoint.producers.durable.replay.history_matcher import CallPlace, HistoryMatcher
from seekpoint.schemas.errors import Refused, ReplayDivergence
from seekpoint.schemas.state.calls import Call


# --- bodies
async def test_what_was_asked_inside_a_finished_call_need_not_be_asked_again() -> None:
    """Its body does not run."""
    again = desk(remembered(("a:1", 1), ("a:1/inner:1", 1), ("a:1/inner:1/deep:1", 1)))
    place(again, "a")
    again.check_read()
    assert again.unread() == []


async def test_what_was_asked_inside_a_call_in_doubt_must_be_asked_again() -> None:
    """Its body runs again, and its calls are found in their scope."""
    records = remembered(("a:1", 1), ("a:1/inner:1", 1), ("a:1/inner:2", 2), status="started")
    again = desk(records)
    outer = place(again, "a")
    with again.inside(outer):
        assert place(again, "inner").record is records["a:1/inner:1"]
        with pytest.raises(ReplayDivergence):
            again.check_read("a:1/")


async def test_a_body_that_ended_in_this_run_settles_what_was_inside() -> None:
    """A further attempt may take another way."""
    again = desk(remembered(("a:1", 1), ("a:1/inner:1", 1), status="started"))
    outer = place(again, "a")
    again.ended(outer)
    again.check_read()
    assert again.unread() == []


async def test_calls_inside_a_body_count_for_themselves() -> None:
    """Their keys begin with the call's."""
    fresh = desk()
    outer = place(fresh, "a")
    with fresh.inside(outer):
        assert place(fresh, "a")[:2] == ("a:1/a:1", 1)
    assert place(fresh, "a")[:2] == ("a:2", 2)


async def test_a_further_attempt_keeps_what_succeeded_and_repeats_what_failed() -> None:
    """In any order: after a failure the code may go another way."""
    records = remembered(("a:1/good:1", 1), ("a:1/bad:1", 2))
    records["a:1/bad:1"] = Call(kind="step", position=2, digest="d", status="failed", attempt=1, seq=5)
    fresh = desk()
    with fresh.inside(place(fresh, "a"), records=records, lenient_below_seq=6):
        assert place(fresh, "bad")[:3] == ("a:1/bad:1~", 1, None)
        assert place(fresh, "good").record is records["a:1/good:1"]


async def test_a_failure_of_the_present_attempt_is_kept() -> None:
    """It came after the attempt began: the code saw it."""
    failed = Call(kind="step", position=2, digest="d", status="failed", attempt=1, seq=9)
    fresh = desk()
    with fresh.inside(place(fresh, "a"), records={"a:1/bad:1": failed}, lenient_below_seq=6):
        assert place(fresh, "bad").record is failed


async def test_an_effect_that_stands_is_not_asked_something_else_in_a_further_attempt() -> None:
    """Under a key of its own it would be done twice, and nobody outside could tell. What changed nothing may be."""
    done = Call(kind="effect", position=1, digest="other", status="succeeded", attempt=1, seq=5)
    unsure, undone = replace(done, status="pending"), replace(done, status="failed", error='{"undone":true}')
    failed, quote = replace(done, status="failed", error="{}"), replace(done, detail='{"semantics":"observe_only"}')
    for record, may in ((done, False), (unsure, False), (failed, False), (undone, True), (quote, True)):
        fresh = desk()
        with fresh.inside(place(fresh, "a"), records={"a:1/pay:1": record}, lenient_below_seq=6):
            if may:
                assert fresh.place("effect", "pay", "d")[:3] == ("a:1/pay:1~", 1, None)
                continue
            with pytest.raises(ReplayDivergence) as caught:
                fresh.place("effect", "pay", "d")
        assert (caught.value.facts["kind"], caught.value.facts["key"]) == ("input", "a:1/pay:1")


async def test_a_permissive_run_asks_it_and_notes_that() -> None:
    """As wherever it has no answer."""
    done = Call(kind="effect", position=1, digest="other", status="succeeded", attempt=1, seq=5)
    noted: list[Any] = []
    fresh = HistoryMatcher("p", {}, strict=False, task=asyncio.current_task(), on_difference=noted.append)
    with fresh.inside(fresh.place("step", "a", "d"), records={"a:1/pay:1": done}, lenient_below_seq=6):
        assert fresh.place("effect", "pay", "d").key == "a:1/pay:1~"
    assert [(one.key, one.kind) for one in noted] == [("a:1/pay:1", "input")]


# --- tasks
async def together(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    return await asyncio.gather(*branches)


async def test_tasks_have_orders_of_their_own() -> None:
    """Two branches interleave as they like, and each counts for itself."""
    fresh = desk()

    async def branch(naps: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for _ in range(2):
            taken = place(fresh, "look")
            found.append((taken.key, taken.position))
            for _ in range(naps):
                await asyncio.sleep(0)
        return found

    first, second = await together(branch(1), branch(3))
    assert first == [("~1/look:1", 1), ("~1/look:2", 2)]
    assert second == [("~2/look:1", 1), ("~2/look:2", 2)]
    assert place(fresh, "look")[:2] == ("look:1", 1)


async def test_a_task_is_the_branch_that_begins_as_it_does() -> None:
    """Though the loop starts them in another order than it did."""
    records = remembered(("~1/a:1", 1), ("~2/b:1", 1))
    again = desk(records)

    async def branch(name: str) -> CallPlace:
        return place(again, name)

    second, first = await together(branch("b"), branch("a"))
    assert (second.key, first.key) == ("~2/b:1", "~1/a:1")
    again.check_read()


async def test_branches_that_ask_alike_are_told_apart_by_their_order_alone() -> None:
    """Whichever asks first is the first one: started in another order they change places, and nothing tells."""
    again = desk(remembered(("~1/a:1", 1), ("~2/a:1", 1)))

    async def branch() -> CallPlace:
        return place(again, "a")

    left, right = asyncio.create_task(branch()), asyncio.create_task(branch())
    assert [(await left).key, (await right).key] == ["~1/a:1", "~2/a:1"]
    again = desk(dict(again.records))
    right, left = asyncio.create_task(branch()), asyncio.create_task(branch())
    assert [(await left).key, (await right).key] == ["~2/a:1", "~1/a:1"]
    again.check_read()


async def test_a_branch_of_which_nothing_landed_is_a_new_one() -> None:
    """The first task's start never left, the second one's did: each is what it was."""
    records = remembered(("~2/b:1", 1))
    again = desk(records)

    async def branch(name: str) -> CallPlace:
        return place(again, name)

    first, second = await together(branch("a"), branch("b"))
    assert (first.key, first.record) == ("~1/a:1", None)
    assert second.record is records["~2/b:1"]


async def test_a_branch_that_begins_otherwise_diverges() -> None:
    """No remembered branch begins so: its first call is compared with the first that is left."""
    again = desk(remembered(("~1/a:1", 1)))

    async def branch() -> None:
        place(again, "renamed")

    with pytest.raises(ReplayDivergence) as caught:
        await together(branch())
    assert (caught.value.kind, caught.value.expected) == ("order", "~1/a:1")


async def test_a_task_inside_a_task_has_a_scope_inside_its_scope() -> None:
    """And a task inside a body one inside the body's."""
    fresh = desk()

    async def inner() -> str:
        return place(fresh, "x").key

    async def outer() -> list[str]:
        own = place(fresh, "x").key
        return [own, *await together(inner(), inner())]

    assert await together(outer()) == [["~1/x:1", "~1/~1/x:1", "~1/~2/x:1"]]
    with fresh.inside(place(fresh, "body")):
        assert await together(inner()) == ["body:1/~1/x:1"]


async def test_a_task_that_outlives_the_call_it_was_made_in_is_refused() -> None:
    """Its calls would belong to something that has ended."""
    fresh = desk()

    async def late() -> None:
        await asyncio.sleep(0)
        place(fresh, "x")

    with fresh.inside(place(fresh, "body")):
        place(fresh, "y")
        task = asyncio.create_task(late())
    with pytest.raises(Refused, match="has ended"):
        await task


async def test_two_processes_in_one_task_keep_apart() -> None:
    """A body of one may call the other."""
    one, other = desk(), desk()
    with one.inside(place(one, "a")):
        assert place(other, "a").key == "a:1"
        with other.inside(place(other, "b")):
            assert place(one, "a").key == "a:1/a:1"
            assert place(other, "x").key == "b:1/x:1"


# --- turns
async def test_turns_begin_their_calls_anew() -> None:
    """Keys of a turn begin with its number, and a turn must have asked for all of its own."""
    again = desk(remembered(("before:1", 1), ("3/a:1", 1), ("3/b:1", 2)))
    place(again, "before")
    again.check_before_turns()
    again.begin_turn(3)
    assert place(again, "a").key == "3/a:1"
    with pytest.raises(ReplayDivergence) as caught:
        again.check_read("3/")
    assert caught.value.key == "3/b:1"


async def test_code_before_the_turns_must_ask_for_all_of_its_own() -> None:
    """Before the first turn begins, not at the end of a loop without end."""
    again = desk(remembered(("before:1", 1), ("3/a:1", 1)))
    with pytest.raises(ReplayDivergence) as caught:
        again.check_before_turns()
    assert (caught.value.kind, caught.value.key) == ("length", "before:1")


async def test_a_task_of_an_ended_turn_is_refused() -> None:
    """Its records leave the state with the turn."""
    fresh = desk()
    fresh.begin_turn(1)
    go_on = asyncio.Event()

    async def background() -> None:
        place(fresh, "x")
        await go_on.wait()
        place(fresh, "x")

    task = asyncio.create_task(background())
    await asyncio.sleep(0)
    fresh.begin_turn(2)
    go_on.set()
    with pytest.raises(Refused, match="has ended"):
        await task
