"""The desk: which place a call has, what is remembered of it, and how code that changed is told. Plain data."""

from __future__ import annotations

from typing import Any

import pytest

from history_matchers import desk, place, remembered
from seekpoint.schemas.errors import InvalidName, Refused, ReplayDivergence


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
    assert caught.value.facts["process_id"] == again.process_id == "p"


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


@pytest.mark.parametrize("name", ["", "x" * 401, 7, [], None])
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


async def test_an_effect_that_a_rewind_left_is_still_bound_to_what_it_was_asked() -> None:
    """Another amount under the same key is no replay."""
    with pytest.raises(ReplayDivergence) as caught:
        place(desk(remembered(("pay:1", 0, "ten"))), "pay", "twenty")
    assert caught.value.kind == "input"
