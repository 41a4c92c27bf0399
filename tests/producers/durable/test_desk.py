"""The desk: which place a call has, what is remembered of it, and how code that changed is told. Plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from seekpoint.producers.durable.desk import Desk, Difference, Place
from seekpoint.schemas.calls import Call
from seekpoint.schemas.errors import InvalidName, Refused, ReplayDivergence


def remembered(*calls: tuple[str, int] | tuple[str, int, str], **more: Any) -> dict[str, Call]:
    """A history: key and position of each call, and its digest."""
    history = {}
    for seq, (key, position, *digest) in enumerate(calls, start=1):
        facts = {"kind": "step", "digest": digest[0] if digest else "d", "status": "succeeded", "attempt": 1, **more}
        history[key] = Call(position=position, seq=seq, **facts)
    return history


def desk(records: dict[str, Call] | None = None, **options: Any) -> Desk:
    return Desk("p", records or {}, task=asyncio.current_task(), **options)


def place(on: Desk, name: str, digest: str = "d", **more: Any) -> Place:
    return on.place("step", name, digest, **more)


async def test_the_same_name_is_counted_and_each_call_has_its_own_result() -> None:
    """Twice the same name is two calls: a:1 and a:2."""
    fresh = desk()
    assert [place(fresh, name)[:2] for name in "aba"] == [("a:1", 1), ("b:1", 2), ("a:2", 3)]


async def test_a_remembered_call_is_found_at_its_place() -> None:
    """Same key, kind, digest and position."""
    records = remembered(("a:1", 1), ("b:1", 2))
    again = desk(records)
    assert place(again, "a").record is records["a:1"]
    assert again.is_replaying
    assert place(again, "b").record is records["b:1"]
    assert not again.is_replaying
    assert place(again, "c").record is None
    again.check_read()


@pytest.mark.parametrize(
    ("kind", "name", "digest", "difference"),
    [
        ("step", "a", "other", "input"),
        ("sample", "a", "d", "type"),
        ("step", "b", "d", "order"),
    ],
)
async def test_a_call_that_differs_from_the_history_says_how(
    kind: str, name: str, digest: str, difference: str
) -> None:
    """Another digest, another kind of call, another call."""
    again = desk(remembered(("a:1", 1)))
    with pytest.raises(ReplayDivergence) as caught:
        again.place(kind, name, digest)
    assert (caught.value.kind, caught.value.position, caught.value.seq) == (difference, 1, 1)


async def test_a_changed_decision_is_a_changed_prompt() -> None:
    """The digest of a decision is that of its request."""
    again = desk(remembered(("plan:1", 1), kind="decision"))
    with pytest.raises(ReplayDivergence) as caught:
        again.place("decision", "plan", "other")
    assert (caught.value.kind, caught.value.expected, caught.value.actual) == ("prompt", "d", "other")


async def test_reordered_calls_diverge_at_the_first_that_moved() -> None:
    """Even if every key exists: a bug of one engine was to run them again in silence."""
    again = desk(remembered(("a:1", 1), ("b:1", 2)))
    with pytest.raises(ReplayDivergence) as caught:
        place(again, "b")
    assert (caught.value.kind, caught.value.expected, caught.value.key) == ("order", "a:1", "b:1")


async def test_a_new_call_before_remembered_ones_diverges() -> None:
    """What was put in between would run in the past."""
    again = desk(remembered(("a:1", 1), ("b:1", 2)))
    place(again, "a")
    with pytest.raises(ReplayDivergence) as caught:
        place(again, "new")
    assert caught.value.kind == "order"


async def test_a_hole_in_the_history_is_a_call_whose_start_never_left() -> None:
    """a and b were asked at once, only b's entry landed: a runs, b is remembered."""
    again = desk(remembered(("b:1", 2)))
    assert place(again, "a").record is None
    assert place(again, "b").record is not None
    again.check_read()


async def test_a_remembered_call_that_moved_into_a_hole_diverges() -> None:
    """Its key exists, but at another position."""
    again = desk(remembered(("b:1", 2)))
    with pytest.raises(ReplayDivergence) as caught:
        place(again, "b")
    assert caught.value.kind == "order"


async def test_after_a_divergence_the_desk_gives_nothing_more() -> None:
    """Code that catches everything and goes on is stopped at its next call."""
    again = desk(remembered(("a:1", 1)))
    with pytest.raises(ReplayDivergence):
        place(again, "b")
    with pytest.raises(ReplayDivergence):
        place(again, "c")
    with pytest.raises(ReplayDivergence):
        again.check_read()


async def test_code_that_ends_early_diverges_in_length() -> None:
    """The first call that was not asked is named."""
    again = desk(remembered(("a:1", 1), ("b:1", 2), ("c:1", 3)))
    place(again, "a")
    with pytest.raises(ReplayDivergence) as caught:
        again.check_read()
    assert (caught.value.kind, caught.value.key) == ("length", "b:1")


async def test_what_was_asked_inside_a_finished_call_need_not_be_asked_again() -> None:
    """Its body does not run."""
    again = desk(remembered(("a:1", 1), ("a:1/inner:1", 1), ("a:1/inner:1/deep:1", 1)))
    place(again, "a")
    again.check_read()


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

    async def branch(name: str) -> Place:
        return place(again, name)

    second, first = await together(branch("b"), branch("a"))
    assert (second.key, first.key) == ("~2/b:1", "~1/a:1")
    again.check_read()


async def test_branches_that_ask_alike_are_told_apart_by_their_order_alone() -> None:
    """Whichever asks first is the first one: started in another order they change places, and nothing tells."""
    again = desk(remembered(("~1/a:1", 1), ("~2/a:1", 1)))

    async def branch() -> Place:
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

    async def branch(name: str) -> Place:
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


async def test_an_explicit_key_is_the_key() -> None:
    """It takes its position as any call; twice is refused."""
    fresh = desk()
    assert place(fresh, "a", key="order-4711")[:2] == ("order-4711", 1)
    with pytest.raises(Refused, match="used before"):
        place(fresh, "a", key="order-4711")


@pytest.mark.parametrize(
    ("given", "written"), [("a/b", "a%2Fb"), ("~1", "%7E1"), ("#3", "%233"), ("7", "%37"), ("10%", "10%25")]
)
async def test_an_explicit_key_is_never_taken_for_a_scope_a_turn_or_a_write(given: str, written: str) -> None:
    """What has a meaning in keys is escaped."""
    assert place(desk(), "a", key=given).key == written


async def test_a_slash_in_a_name_makes_no_scope() -> None:
    """Tools are often named so."""
    assert place(desk(), "mcp/search").key == "mcp%2Fsearch:1"


@pytest.mark.parametrize("name", ["", "x" * 401, 7])
async def test_a_name_that_is_none_is_refused(name: Any) -> None:
    """And takes no position."""
    fresh = desk()
    with pytest.raises(InvalidName):
        place(fresh, name)
    assert place(fresh, "a").position == 1


async def test_a_write_is_named_by_its_position() -> None:
    """It counts with all other calls of its scope."""
    fresh = desk()
    place(fresh, "a")
    assert fresh.place_write("w")[:2] == ("#2", 2)


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


# --- patches
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


# --- permissive
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
    desk(remembered(("a:1", 1)), strict=False).check_read()


async def test_two_processes_in_one_task_keep_apart() -> None:
    """A body of one may call the other."""
    one, other = desk(), desk()
    with one.inside(place(one, "a")):
        assert place(other, "a").key == "a:1"
        with other.inside(place(other, "b")):
            assert place(one, "a").key == "a:1/a:1"
            assert place(other, "x").key == "b:1/x:1"


async def test_permissive_never_takes_the_key_of_something_else() -> None:
    """What is remembered stays what it is."""
    said: list[Difference] = []
    loose = desk(remembered(("old:1", 1), ("pay:1", 2), kind="effect"), strict=False, on_difference=said.append)
    assert place(loose, "new", "other").key == "new:1"
    assert [(one.key, one.expected, one.actual) for one in said] == [("new:1", "old:1", "new:1")]
    assert loose.place("effect", "pay", "another").key == "pay:1~"


async def test_what_stands_aside_answers_who_asks_the_same() -> None:
    """After a permissive run; strict, and only once. Nobody has to ask."""
    records = remembered(("a:1!7", 0, "x"), ("pay:1", 0, "y"))
    again = desk(records)
    assert place(again, "b", "x").record is records["a:1!7"]
    assert place(again, "b", "x").record is None
    again.check_read()
    assert place(again, "pay", "y").record is records["pay:1"]


async def test_an_effect_that_a_rewind_left_is_still_bound_to_what_it_was_asked() -> None:
    """Another amount under the same key is no replay."""
    with pytest.raises(ReplayDivergence) as caught:
        place(desk(remembered(("pay:1", 0, "ten"))), "pay", "twenty")
    assert caught.value.kind == "input"
