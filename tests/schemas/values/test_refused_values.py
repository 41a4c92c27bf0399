"""Values that cannot be journaled: the error has the path and a way to convert them."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_values import values
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import LimitExceeded, UnserializableValue
from seekpoint.schemas.values.json_values import check, dump, load

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
    def test_a_value_without_an_exact_text_is_refused_with_a_hint(self, value: Any, hint: str, plain: bool) -> None:
        """Both the fast path and the slow path refuse it."""
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
    def test_the_path_reads_like_an_expression(self, value: Any, path: str) -> None:
        """It leads to the first value that does not fit."""
        with pytest.raises(UnserializableValue) as caught:
            dump(value)
        assert caught.value.path == path

    @pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x,), lambda x: {"a": x}], ids=["self", "tuple", "dict"])
    def test_a_cycle_is_refused(self, wrap: Callable[[Any], Any]) -> None:
        """The path leads to the value that closes the cycle."""
        loop: list[Any] = [1]
        loop.append(wrap(loop))
        with pytest.raises(UnserializableValue, match="contains itself"):
            dump(loop)

    def test_the_same_value_twice_is_no_cycle(self) -> None:
        """A shared value is decoded to two equal values."""
        shared = [Decimal(1)]
        assert load(dump([shared, shared])) == [shared, shared]


class TestLimits:
    @pytest.mark.parametrize("leaf", [1, Decimal(1)], ids=["plain", "tagged"])
    @pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}], ids=["list", "dict"])
    def test_depth_is_the_nesting_of_the_text(self, wrap: Callable[[Any], Any], leaf: Any) -> None:
        """The deepest legal value can be written and read; one more level can be neither."""
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
        """So no acknowledged entry is poison to a reader."""
        limits = Limits(items=items, depth=depth)
        try:
            dump(value, limits)
        except LimitExceeded:
            with pytest.raises(LimitExceeded):
                check(dump(value), limits)
        else:
            check(dump(value), limits)

    @pytest.mark.parametrize("text", ["{", "[]", "}{"])
    def test_brackets_in_a_text_are_no_depth(self, text: str) -> None:
        """Also where no depth is allowed at all."""
        limits = Limits(items=0, depth=0)
        check(dump(text, limits), limits)
        with pytest.raises(LimitExceeded):
            check("[]", limits)

    def test_shared_values_that_expand_to_billions_are_refused_at_once(self) -> None:
        """Sixty lists, each twice in the next, are 2**60 items: the walk stops at the limit."""
        value: list[Any] = [1]
        for _ in range(60):
            value = [value, value]
        with pytest.raises(LimitExceeded):
            dump(value)

    def test_a_manifest_cannot_allow_more_depth_than_the_stack_allows(self) -> None:
        """With a limit of a million, a value nested 5,000 times is still a typed error."""
        value: Any = 1
        for _ in range(5_000):
            value = [value]
        for leaf in (value, (value,)):
            with pytest.raises(LimitExceeded):
                dump(leaf, Limits(depth=1_000_000))
