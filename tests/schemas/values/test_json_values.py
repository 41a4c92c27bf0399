"""Dynamic values: exact round trips, canonical texts and merge patches."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, localcontext
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given

from any_values import values
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord
from seekpoint.schemas.values.json_values import check, digest, dump, load, load_written
from seekpoint.schemas.values.merge_patch import merge_patch


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal with equal types throughout; -0.0 is not 0.0, 1.10 is not 1.1."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, set | frozenset):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    return left == right if isinstance(left, int) else repr(left) == repr(right)


def shuffled(value: Any) -> Any:
    """Return the same value with every dict and set built in another order."""
    if type(value) is dict:
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    if type(value) in (list, tuple, set, frozenset):
        items = [shuffled(item) for item in value]
        return type(value)(items[::-1] if isinstance(value, set | frozenset) else items)
    return value


class TestExact:
    @given(values)
    def test_every_value_survives_a_round_trip(self, value: Any) -> None:
        """load(dump(v)) is equal to v, with the same types throughout."""
        assert same(load(dump(value)), value)

    @given(values)
    def test_the_text_is_json_that_the_check_accepts(self, value: Any) -> None:
        """Any JSON reader reads the text of dump, and check accepts it."""
        text = dump(value)
        check(text)
        assert json.loads(text) == orjson.loads(text)

    @given(values)
    def test_the_text_does_not_depend_on_the_order_of_dicts_and_sets(self, value: Any) -> None:
        """Equal values have equal texts and equal digests."""
        assert dump(shuffled(value)) == dump(value)
        assert digest(shuffled(value)) == digest(value)

    @given(values)
    def test_loading_and_dumping_again_gives_the_same_text(self, value: Any) -> None:
        """The text is canonical."""
        text = dump(value)
        assert dump(load(text)) == text

    def test_equal_values_of_different_types_have_different_texts(self) -> None:
        """1, 1.0, True, "1", Decimal 1, b"1", (1,), [1], {1}: nine texts, nine digests."""
        apart = [1, 1.0, True, "1", Decimal(1), b"1", (1,), [1], {1}, frozenset({1}), -0.0, 0.0, 0, None, "", [], {}]
        assert len({dump(value) for value in apart}) == len(apart)
        assert len({digest(value) for value in apart}) == len(apart)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "null"),
            (True, "true"),
            ("é\n", '"é\\n"'),
            (2**53 - 1, "9007199254740991"),
            (2**53, '{"$int":"9007199254740992"}'),
            (-(2**53), '{"$int":"-9007199254740992"}'),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (Decimal("1.10"), '{"$decimal":"1.10"}'),
            (b"\x00\xff", '{"$bytes":"AP8="}'),
            ((1, (2,)), '{"$tuple":[1,{"$tuple":[2]}]}'),
            ({3, 1, 2}, '{"$set":[1,2,3]}'),
            (frozenset({"b", "a"}), '{"$frozenset":["a","b"]}'),
            (datetime(2026, 1, 2, 3, 4, 5, 6), '{"$datetime":"2026-01-02T03:04:05.000006"}'),
            (datetime(2026, 1, 2, tzinfo=UTC), '{"$datetime":"2026-01-02T00:00:00+00:00"}'),
            (datetime(2026, 10, 25, 2, 30, fold=1), '{"$datetime":"2026-10-25T02:30:00[fold=1]"}'),
            (date(2026, 1, 2), '{"$date":"2026-01-02"}'),
            (time(3, 4), '{"$time":"03:04:00"}'),
            (timedelta(seconds=-1.5), '{"$timedelta":"-1.500000"}'),
            (UUID(int=1), '{"$uuid":"00000000-0000-0000-0000-000000000001"}'),
            ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
            ({"$int": "1"}, '{"$object":{"$int":"1"}}'),
            ({"$object": {"$int": "1"}}, '{"$object":{"$object":{"$object":{"$int":"1"}}}}'),
            ({"$int": "1", "b": 2}, '{"$int":"1","b":2}'),
        ],
    )
    def test_the_text_of_a_value_is_fixed(self, value: Any, text: str) -> None:
        """Journals contain these texts, so they never change."""
        assert dump(value) == text
        assert same(load(text), value)

    @pytest.mark.parametrize("value", [10**4095, -(10**4094), Decimal("9" * 4096)], ids=["int", "negative", "decimal"])
    def test_the_longest_numbers_survive_a_round_trip(self, value: Any) -> None:
        """Their texts have up to 4096 characters."""
        assert same(load(dump(value)), value)

    @pytest.mark.parametrize(
        "value", [10**4096, -(10**4095), 1 << 100_000, Decimal("9" * 4097)], ids=["int", "negative", "huge", "decimal"]
    )
    def test_longer_numbers_are_refused_quickly(self, value: Any) -> None:
        """The time to read a number is quadratic in its length."""
        with pytest.raises(LimitExceeded, match=r"\$\.n"):
            dump({"n": value})

    def test_neither_the_decimal_context_nor_the_limit_of_int_texts_changes_a_text(self) -> None:
        """Both belong to the program, but other programs read the journal."""
        value = [Decimal("1E+9"), 10**4000]
        text = dump(value)
        digits = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(640)
        try:
            with localcontext(Context(prec=2, capitals=0, Emax=3, Emin=-3, traps=[])):
                assert dump(value) == text
                assert same(load(text), value)
                with pytest.raises(UndecodableRecord):
                    load('{"$decimal":"1E+9999999999999999999"}')
        finally:
            sys.set_int_max_str_digits(digits)


RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


class TestMergePatch:
    @pytest.mark.parametrize(("target", "patch", "result"), RFC_7386)
    def test_merge_patch_follows_the_table_of_the_rfc(self, target: Any, patch: Any, result: Any) -> None:
        """All fifteen rows of RFC 7386, appendix A."""
        assert merge_patch(target, patch) == result

    @given(values, values)
    def test_neither_argument_is_changed(self, target: Any, patch: Any) -> None:
        """The result is a new value."""
        before = dump(target), dump(patch)
        merge_patch(target, patch)
        assert (dump(target), dump(patch)) == before

    @given(values, values)
    def test_a_merge_patch_is_idempotent(self, target: Any, patch: Any) -> None:
        """To apply a patch twice has the effect of applying it once."""
        once = merge_patch(target, patch)
        assert same(merge_patch(once, patch), once)

    def test_a_tagged_value_is_replaced_whole(self) -> None:
        """A patch treats a Decimal, a tuple or a set as a scalar."""
        target = {"price": Decimal("1.10"), "pair": (1, 2), "tags": {"a"}}
        patch = load(dump({"price": Decimal("2"), "pair": {"x": 1}, "tags": None}))
        assert merge_patch(target, patch) == {"price": Decimal(2), "pair": {"x": 1}}


def test_a_digest_is_sixteen_bytes_of_the_text_in_hex() -> None:
    """Anybody can compute it from the journal's text: b2sum -l 128."""
    assert digest(None) == "941dffce4e4308ceb33e87326003257d"


@pytest.mark.parametrize("number", [10**20 + 1, -(2**70), 2**63, 2**64, 10**300])
def test_an_integer_that_a_person_writes_is_exact(number: int) -> None:
    """Whatever its size: 100 ether and one wei are no float."""
    text = f'{{"amount": [{number}, 1.5, {{"$decimal": "1.10"}}]}}'
    assert load_written(text) == {"amount": [number, 1.5, Decimal("1.10")]}
    assert type(load_written(str(number))) is int
    assert load(dump(load_written(str(number)))) == number


@pytest.mark.parametrize("text", ["{", "NaN", "[1,]", "9" * 5_000, '{"$tuple": 12345678901234567890123}'])
def test_what_is_no_value_is_refused_as_written_too(text: str) -> None:
    """With the typed error."""
    with pytest.raises(UndecodableRecord):
        load_written(text)
