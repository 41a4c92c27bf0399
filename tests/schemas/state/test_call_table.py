"""The table of calls: a dict to whoever reads it, at once copied, and never written through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seekpoint.schemas.state.call_table import Calls, CallsDraft
from seekpoint.schemas.state.calls import Call, call_row

KEYS = [f"{turn}call:{number}" for turn in ("", "1/", "2/", "look:1/") for number in range(60)]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.sampled_from(KEYS)),
        st.tuples(st.just("many"), st.integers(0, 9), st.sampled_from(["", "1/", "look:1/"])),
        st.tuples(st.just("share"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("bytes"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(["1", "2", "3"])),
    ),
    max_size=40,
)


def call(seq: int) -> Call:
    """Some call, told from others by its seq."""
    return Call("step", 1, "d", "succeeded" if seq % 3 == 0 else "started", 1, seq)


def is_open(one: Call) -> bool:
    """Return whether the call has no outcome yet."""
    return one.status == "started"


@given(ACTS)
@settings(deadline=None)
def test_a_table_and_its_copies_are_dicts_of_their_own(acts: list[tuple[str, int, str]]) -> None:
    """Whatever is put, shared, restored or ended, in whatever order: each has what a dict of its own would have."""
    tables: list[tuple[CallsDraft, dict[str, Call]]] = [(CallsDraft(), {})]
    for seq, (act, which, what) in enumerate(acts):
        table, plain = tables[which % len(tables)]
        if act == "put":
            table.put(what, call(seq))
            plain[what] = call(seq)
        elif act == "many":  # more than the upper layer takes
            for number in range(100):
                table.put(f"{what}many:{number}", call(seq))
                plain[f"{what}many:{number}"] = call(seq)
        elif act == "share":
            tables.append((table.draft(), dict(plain)))
        elif act == "bytes":
            tables.append((CallsDraft.of_rows({key: call_row(one) for key, one in plain.items()}), dict(plain)))
        else:
            stays = {key: one for key, one in table.of_turn(int(what)).items() if one.seq % 2}
            table.end_turn(int(what), stays)
            for key in [key for key in plain if key.startswith(f"{what}/") and key not in stays]:
                del plain[key]
        for seen, expected in tables:
            assert dict(seen.items()) == expected
            assert (len(seen), bool(seen)) == (len(expected), bool(expected))
            assert (
                seen.unsettled == seen.window().unsettled == {key: one for key, one in expected.items() if is_open(one)}
            )
    for seen, expected in tables:
        assert set(seen) == set(seen.keys()) == expected.keys()
        assert sorted(one.seq for one in seen.values()) == sorted(one.seq for one in expected.values())
        assert seen.copy() == expected == Calls(expected).copy()
        assert {key: seen.get(key) for key in KEYS} == {key: expected.get(key) for key in KEYS}
        assert all((key in seen) == (key in expected) for key in KEYS)


def test_what_stays_when_a_turn_ends_is_there() -> None:
    """An effect in doubt; all else of the turn is gone, and nothing of another one."""
    table = CallsDraft.of_rows({key: call_row(call(1)) for key in ("a:1", "1/a:1", "1/pay:1", "2/a:1")})
    table.end_turn(1, {"1/pay:1": table["1/pay:1"]})
    assert set(table) == {"a:1", "1/pay:1", "2/a:1"}
    table.end_turn(2, {})
    assert set(table) == {"a:1", "1/pay:1"}


def test_what_is_not_there_is_not_found() -> None:
    """As in any mapping, whatever is asked for."""
    table = Calls({"a:1": call(1)})
    assert table["a:1"] == call(1)
    assert table.get("b:1", "none") == table.get("1/b:1", "none") == "none"
    nothing: object = 7
    assert nothing not in table
    with pytest.raises(KeyError):
        table["1/a:1"]


def test_a_call_counts_once_however_often_it_is_written() -> None:
    """A copy of a large table has its new calls apart: a start and its end are one of them."""
    copy = CallsDraft({f"a:{number}": call(number) for number in range(200)}).draft()
    for seq in range(3):
        copy.put("b:1", call(seq))
        copy.put("a:1", call(seq))
    assert len(copy) == len(copy.copy()) == 201


def test_a_window_cannot_be_written_on() -> None:
    """What a state hands out has no way to change it."""
    window = CallsDraft({"a:1": call(1)}).window()
    assert type(window) is Calls
    assert not hasattr(window, "put")
    assert "a:1" in repr(window)


def test_a_write_on_a_copy_of_a_large_table_copies_little_of_it() -> None:
    """The square root, not all: an owner whose agent looks at its state at each step pays this at each step."""
    whole = CallsDraft({f"a:{number}": call(number) for number in range(10_000)})
    copied = 0
    for number in range(1_000):
        copy = whole.draft()
        copy.put(f"b:{number}", call(number))
        layers = copy._layers[0]
        copied += len(layers.new) if layers.new else len(layers.old)
        whole = copy
    assert copied < 1_000 * 400
    assert len(whole) == 11_000
