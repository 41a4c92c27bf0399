"""Dynamic values: exact or refused, canonical, and safe to read from anybody."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import sys
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal, localcontext
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.schemas.errors import LimitExceeded, SeekpointError, UndecodableRecord, UnserializableValue
from seekpoint.schemas.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.values import check, digest, dump, load, merge_patch

Pair = namedtuple("Pair", "left right")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(str):
    pass


@dataclasses.dataclass
class Point:
    x: int


class Model:
    """Looks like a pydantic model."""

    def model_dump(self) -> dict[str, Any]:
        return {}


class Array:
    """Looks like a numpy array."""

    def tolist(self) -> list[Any]:
        return []


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down; -0.0 is not 0.0, a fold is not a fold, 1.10 is not 1.1."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, set | frozenset):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    return left == right if isinstance(left, int) else repr(left) == repr(right)


fixed_zones = st.none() | st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**53 - 2, 2**53 + 2),
    st.integers(-(10**200), 10**200),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(["$int", "$", "\\u0024", '"$', "\\", ""]),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=fixed_zones),
    st.times(timezones=fixed_zones),
    st.builds(lambda moment: moment.replace(fold=1), st.datetimes()),
    st.dates(),
    st.timedeltas(),
    st.uuids(),
)
hashable = st.recursive(
    scalars, lambda inner: st.frozensets(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple), max_leaves=8
)
keys = st.text() | st.sampled_from(["$int", "$tuple", "$object", "$new", "$", "$decimal"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(keys, inner, max_size=5),
        st.sets(hashable, max_size=5),
        st.frozensets(hashable, max_size=5),
    ),
    max_leaves=25,
)


def shuffled(value: Any) -> Any:
    """The same value with every dict and set built in another order."""
    if type(value) is dict:
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    if type(value) in (list, tuple, set, frozenset):
        items = [shuffled(item) for item in value]
        return type(value)(items[::-1] if isinstance(value, set | frozenset) else items)
    return value


class TestExact:
    @given(values)
    def test_every_value_comes_back_as_itself(self, value: Any) -> None:
        """load(dump(v)) is v, of the same types all the way down."""
        assert same(load(dump(value)), value)

    @given(values)
    def test_the_text_is_json_that_the_check_accepts(self, value: Any) -> None:
        """What dump writes, any JSON reader reads and every reader's check lets pass."""
        text = dump(value)
        json.loads(text)
        check(text)

    @given(values)
    def test_the_text_does_not_depend_on_the_order_of_dicts_and_sets(self, value: Any) -> None:
        """Equal values have equal texts and equal digests."""
        assert dump(shuffled(value)) == dump(value)
        assert digest(shuffled(value)) == digest(value)

    @given(values)
    def test_loading_and_dumping_again_gives_the_same_text(self, value: Any) -> None:
        """The text is canonical: it is its own fixed point."""
        text = dump(value)
        assert dump(load(text)) == text

    def test_equal_values_of_unequal_types_stay_apart(self) -> None:
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
        """These texts are in journals already: they never change."""
        assert dump(value) == text
        assert same(load(text), value)

    @pytest.mark.parametrize("value", [10**4095, -(10**4094), Decimal("9" * 4096)], ids=["int", "negative", "decimal"])
    def test_the_longest_numbers_come_back(self, value: Any) -> None:
        """Up to 4096 characters."""
        assert same(load(dump(value)), value)

    @pytest.mark.parametrize(
        "value", [10**4096, -(10**4095), 1 << 100_000, Decimal("9" * 4097)], ids=["int", "negative", "huge", "decimal"]
    )
    def test_longer_numbers_are_refused_before_they_cost_anything(self, value: Any) -> None:
        """Reading a number costs the square of its length."""
        with pytest.raises(LimitExceeded, match=r"\$\.n"):
            dump({"n": value})

    def test_neither_the_decimal_context_nor_the_limit_of_int_texts_changes_a_text(self) -> None:
        """Both belong to the program; the journal is read by others."""
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


class TestRefused:
    @pytest.mark.parametrize(
        ("value", "hint"),
        [
            (Level.LOW, ".value"),
            (Colour.RED, ".value"),
            (Word("a"), "str()"),
            (Point(1), "dataclasses.asdict()"),
            (Model(), ".model_dump()"),
            (Pair(1, 2), "._asdict()"),
            (defaultdict(list), "dict()"),
            (OrderedDict(a=1), "dict()"),
            (bytearray(b"a"), "bytes()"),
            (Array(), ".tolist()"),
            (iter([1]), "list()"),
            (object(), "plain types"),
            (1j, "plain types"),
            (datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")), "astimezone"),
            (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")), "astimezone"),
            (time(1, tzinfo=timezone(timedelta(microseconds=1))), "astimezone"),
            (float("nan"), "None"),
            (float("inf"), "None"),
            (Decimal("NaN"), "None"),
            (Decimal("-Infinity"), "None"),
            ("\ud800", "bytes"),
            ({1: 2}, "str(key)"),
            ({None: 2}, "str(key)"),
            ({Word("a"): 2}, "str(key)"),
            ({"\udfff": 2}, "bytes"),
        ],
        ids=lambda each: re.sub(r" object at 0x[0-9a-f]+", "", repr(each)),
    )
    @pytest.mark.parametrize("plain", [True, False], ids=["beside plain values", "beside tagged values"])
    def test_what_is_not_exact_is_refused_with_its_path_and_a_way_out(self, value: Any, hint: str, plain: bool) -> None:
        """On the fast way and on the exact way alike."""
        with pytest.raises(UnserializableValue) as caught:
            dump({"items": [1, "two", 3 if plain else Decimal(3), {"price": value}]})
        assert caught.value.path.startswith("$.items[3].price")
        assert hint in caught.value.hint

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            (object(), "$"),
            ({"a b": object()}, "$['a b']"),
            ({"$x": object()}, "$['$x']"),
            ((1, object()), "$[1]"),
            ({"tags": {object()}}, "$.tags{…}"),
            ({"a": {"b": [[0, {"c": 1j}]]}}, "$.a.b[0][1].c"),
        ],
    )
    def test_the_path_reads_like_the_code_that_gets_there(self, value: Any, path: str) -> None:
        """The path of the error is the first value that does not fit."""
        with pytest.raises(UnserializableValue) as caught:
            dump(value)
        assert caught.value.path == path

    @pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x,), lambda x: {"a": x}], ids=["self", "tuple", "dict"])
    def test_a_cycle_is_refused(self, wrap: Callable[[Any], Any]) -> None:
        """With the path on which it closes."""
        loop: list[Any] = [1]
        loop.append(wrap(loop))
        with pytest.raises(UnserializableValue, match="contains itself"):
            dump(loop)

    def test_the_same_value_twice_is_no_cycle(self) -> None:
        """Sharing is not a cycle; it comes back as two equal values."""
        shared = [Decimal(1)]
        assert load(dump([shared, shared])) == [shared, shared]


class TestLimits:
    @pytest.mark.parametrize("leaf", [1, Decimal(1)], ids=["plain", "tagged"])
    @pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}], ids=["list", "dict"])
    def test_depth_is_the_nesting_of_the_text(self, wrap: Callable[[Any], Any], leaf: Any) -> None:
        """The deepest value that may be written may be read; one level more may be neither."""
        limits = Limits(depth=5)
        value = leaf
        for _ in range(5 if leaf == 1 and type(leaf) is int else 4):
            value = wrap(value)
        check(dump(value, limits), limits)
        deeper = wrap(value)
        with pytest.raises(LimitExceeded, match="deeper than 5"):
            dump(deeper, limits)
        with pytest.raises(LimitExceeded, match="deeper than 5"):
            check(dump(deeper), limits)

    @pytest.mark.parametrize(
        ("value", "items"),
        [
            ([], 0),
            ([1], 1),
            ([""], 1),
            (["[,{"], 1),
            ([[], [], {}], 3),
            ([[1], [2]], 4),
            ({"a": {"b": 1}}, 2),
            ((1, 2), 3),
            ({"$int": 1}, 2),
            ([2**53], 2),
            ({1, 2}, 3),
            ({"a": '",', "b": "\\"}, 2),
        ],
        ids=repr,
    )
    def test_items_are_the_members_of_the_text(self, value: Any, items: int) -> None:
        """Writer and reader count alike, whatever the strings contain."""
        text = dump(value)
        dump(value, Limits(items=items))
        check(text, Limits(items=items))
        if items:
            with pytest.raises(LimitExceeded, match="items"):
                dump(value, Limits(items=items - 1))
            with pytest.raises(LimitExceeded, match="items"):
                check(text, Limits(items=items - 1))

    @given(values, st.integers(0, 12), st.integers(0, 6))
    def test_the_writer_refuses_exactly_what_a_reader_refuses(self, value: Any, items: int, depth: int) -> None:
        """So nothing that was acknowledged is poison to a reader."""
        limits = Limits(items=items, depth=depth)
        try:
            dump(value, limits)
        except LimitExceeded:
            with pytest.raises(LimitExceeded):
                check(dump(value), limits)
        else:
            check(dump(value), limits)

    def test_shared_values_that_unfold_to_billions_are_refused_at_once(self) -> None:
        """Sixty lists, each twice in the next, are 2**60 items: the walk stops at the limit."""
        value: list[Any] = [1]
        for _ in range(60):
            value = [value, value]
        with pytest.raises(LimitExceeded):
            dump(value)

    def test_a_manifest_cannot_allow_more_depth_than_python_can_walk(self) -> None:
        """With a limit of a million, a value nested 5,000 times is still a typed error."""
        value: Any = 1
        for _ in range(5_000):
            value = [value]
        for leaf in (value, (value,)):
            with pytest.raises(LimitExceeded):
                dump(leaf, Limits(depth=1_000_000))


HOSTILE = {
    "nothing": "",
    "not json": "{",
    "nan": "NaN",
    "infinity": "1e400",
    "a lone surrogate": '"\\ud800"',
    "a raw lone surrogate": '"\ud800"',
    "two values": "1 2",
    "unknown tag": '{"$new": 1}',
    "an empty tag": '{"$": 1}',
    "a tag spelt with an escape": '{"\\u0024int": "x"}',
    "no text in an int": '{"$int": 1}',
    "an int that is none": '{"$int": "1_0"}',
    "an int in other digits": '{"$int": "٣"}',
    "an endless int": '{"$int": "%s"}' % ("9" * 5000),
    "no decimal": '{"$decimal": "NaN"}',
    "a decimal beyond all exponents": '{"$decimal": "1E+9999999999999999999"}',
    "no base64": '{"$bytes": "A"}',
    "base64 with junk": '{"$bytes": "A A="}',
    "no moment": '{"$datetime": "2026-13-01"}',
    "a moment spelt otherwise": '{"$datetime": "20260101"}',
    "a fold twice": '{"$datetime": "2026-01-01T00:00:00[fold=1][fold=1]"}',
    "no date": '{"$date": "today"}',
    "a duration beyond all": '{"$timedelta": "99999999999999.000000"}',
    "no uuid": '{"$uuid": "{00000000-0000-0000-0000-000000000001}"}',
    "a tuple of no list": '{"$tuple": {}}',
    "a list in a set": '{"$set": [[1]]}',
    "a dict in a set": '{"$set": [{}]}',
    "a member twice": '{"$set": [1, 1]}',
    "equal members": '{"$set": [1, true]}',
    "an escape of nothing": '{"$object": {"a": 1}}',
    "an escape of a list": '{"$object": []}',
    "a tag with a newer one inside": '[{"$tuple": [{"$future": 1}]}]',
}


class TestUntrusted:
    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
    def test_malformed_text_is_one_typed_error(self, text: str) -> None:
        """From check and from load alike."""
        with pytest.raises(UndecodableRecord):
            check(text)
        with pytest.raises(UndecodableRecord):
            load(text)

    @pytest.mark.parametrize("depth", [65, 1_000, 1_030, 500_000])
    @pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("leaf", ["", '"', '{"$int":"1"}'])
    def test_deep_text_never_reaches_the_interpreters_stack(self, depth: int, closed: bool, leaf: str) -> None:
        """Neither recursion nor a crash, only typed errors."""
        text = "[" * depth + leaf + "]" * depth * closed
        with pytest.raises((LimitExceeded, UndecodableRecord)):
            check(text)
        with pytest.raises((LimitExceeded, UndecodableRecord)):
            check('{"a":' * depth + text, DEFAULT_LIMITS)

    @pytest.mark.parametrize("text", ["[" * 900 + '{"$int":"1"}' + "]" * 900, '{"a":' * 900 + '"$x"' + "}" * 900])
    def test_load_alone_does_not_recurse_without_end_either(self, text: str) -> None:
        """A caller that skips the check gets a typed error, not a RecursionError."""
        with pytest.raises(UndecodableRecord, match="nested"):
            load(text)

    def test_a_set_made_to_collide_is_refused(self) -> None:
        """Multiples of 2**61 - 1 all hash to 0: a set of n of them would cost n squared."""
        members = ",".join(f'{{"$int":"{factor * (2**61 - 1)}"}}' for factor in range(2, 30_000))
        with pytest.raises(UndecodableRecord, match="collide"):
            check('{"$set":[' + members + "]}")

    def test_of_a_key_named_twice_the_last_one_counts(self) -> None:
        """As in JavaScript and in most JSON readers; dump never writes one."""
        check('{"a":1,"a":2}')
        assert load('{"a":1,"a":2}') == {"a": 2}

    def test_space_and_the_order_of_another_writer_do_not_matter(self) -> None:
        """A reader accepts JSON that is not canonical."""
        text = ' { "b" : [ 1 , { "$tuple" : [ ] } ] , "a" : [ ] } '
        check(text, Limits(items=5, depth=4))
        assert load(text) == {"a": [], "b": [1, ()]}
        with pytest.raises(LimitExceeded):
            check(text, Limits(items=5, depth=3))

    @given(st.text())
    def test_random_text_raises_our_errors_only(self, text: str) -> None:
        """Whatever it is."""
        read(text)

    @given(st.lists(st.sampled_from([*'[]{},:"\\$ 1a', '"$', "$int", "$set", "$tuple", "null", "\\u0024"])))
    def test_random_json_tokens_raise_our_errors_only(self, tokens: list[str]) -> None:
        """Nearer to JSON than random text comes."""
        read("".join(tokens))

    @given(values, st.randoms(use_true_random=False))
    def test_mutated_text_raises_our_errors_only(self, value: Any, chance: random.Random) -> None:
        """Characters of a good text dropped, doubled, exchanged."""
        characters = list(dump(value))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(characters))
            characters[place] = chance.choice(["", characters[place] * 2, chance.choice('[]{},:"\\$0-.eE+x')])
        read("".join(characters))


def read(text: str) -> None:
    """Check and load; what passes the check must load, and must be a value that dump accepts again."""
    try:
        check(text)
    except SeekpointError:
        return
    dump(load(text), Limits(depth=128, items=1_000_000))


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
    def test_the_table_of_the_rfc_holds(self, target: Any, patch: Any, result: Any) -> None:
        """RFC 7386, appendix A, all fifteen rows."""
        assert merge_patch(target, patch) == result

    @given(values, values)
    def test_neither_argument_is_changed(self, target: Any, patch: Any) -> None:
        """The result is a value of its own."""
        before = dump(target), dump(patch)
        merge_patch(target, patch)
        assert (dump(target), dump(patch)) == before

    @given(values, values)
    def test_a_patch_applied_twice_is_a_patch_applied_once(self, target: Any, patch: Any) -> None:
        """Merge patches are idempotent."""
        once = merge_patch(target, patch)
        assert same(merge_patch(once, patch), once)

    def test_a_tagged_value_is_replaced_whole(self) -> None:
        """A Decimal, a tuple or a set is a scalar to a patch, whatever its text looks like."""
        target = {"price": Decimal("1.10"), "pair": (1, 2), "tags": {"a"}}
        patch = load(dump({"price": Decimal("2"), "pair": {"x": 1}, "tags": None}))
        assert merge_patch(target, patch) == {"price": Decimal(2), "pair": {"x": 1}}


def test_a_digest_is_sixteen_bytes_of_the_text_in_hex() -> None:
    """Anybody can compute it from what the journal holds: b2sum -l 128."""
    assert digest(None) == "941dffce4e4308ceb33e87326003257d"
