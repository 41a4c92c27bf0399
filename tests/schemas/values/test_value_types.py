"""Values by their annotations: every model comes back as it was, and what does not fit is refused with its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payload_models import (
    Colour,
    DataOrder,
    Derived,
    Item,
    Place,
    Pull,
    Push,
    PydanticItem,
    PydanticOrder,
    StructOrder,
    TypedOrder,
)
from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.errors import InvalidOption, InvalidValue, RecordedValueInvalid, UnserializableValue
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.models import members_of, with_member
from seekpoint.schemas.values.value_types import ValueType, asked_type, value_type


class Plain:
    """No model."""


decimals = st.decimals(allow_nan=False, allow_infinity=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
items = st.builds(Item, st.text(), decimals, st.none() | st.sampled_from(Colour))
data_orders = st.builds(
    DataOrder, st.integers(), st.lists(items, max_size=3), st.dictionaries(st.text(), items, max_size=3),
    st.lists(st.builds(Place, st.integers(), finite), max_size=3).map(tuple), st.none() | st.dates(),
    st.none() | st.datetimes(), st.none() | st.uuids(), st.binary(),
    st.none() | st.text() | st.lists(st.integers()).map(tuple) | decimals,
)  # fmt: skip
pydantic_orders = st.builds(
    PydanticOrder, number=st.integers(1, 2**60),
    items=st.lists(st.builds(PydanticItem, name=st.text(), price=decimals), max_size=3),
    colours=st.sets(st.sampled_from(Colour)), made=st.none() | st.datetimes(), secret=st.none(), link=st.none(),
    kind=st.just("order"),
)  # fmt: skip
typed: st.SearchStrategy[tuple[Any, Any]] = st.one_of(
    st.tuples(st.just(DataOrder), data_orders),
    st.tuples(st.just(list[DataOrder]), st.lists(data_orders, max_size=2)),
    st.tuples(st.just(dict[str, DataOrder]), st.dictionaries(st.text(), data_orders, max_size=2)),
    st.tuples(st.just(DataOrder | None), st.none() | data_orders),
    st.tuples(st.just(tuple[Item, int]), st.tuples(items, st.integers())),
    st.tuples(st.just(set[Item]), st.sets(items, max_size=3)),
    st.tuples(st.just(dict[Colour, Item]), st.dictionaries(st.sampled_from(Colour), items)),
    st.tuples(
        st.just(StructOrder),
        st.builds(StructOrder, st.integers(), items, st.frozensets(st.sampled_from(Colour))),
    ),
    st.tuples(st.just(Push | Pull), st.builds(Push, st.integers()) | st.builds(Pull, st.integers())),
    st.tuples(
        st.just(TypedOrder), st.fixed_dictionaries({"number": st.integers()}, optional={"item": items, "more": finite})
    ),
    st.tuples(st.just(PydanticOrder), pydantic_orders),
    st.tuples(st.just(list[PydanticOrder | PydanticItem]), st.lists(pydantic_orders, max_size=2)),
    st.tuples(st.just(Colour), st.sampled_from(Colour)),
    st.tuples(st.just(Place), st.builds(Place, st.integers(), finite)),
    st.tuples(st.just(Sequence[Item]), st.lists(items, max_size=2)),
)


def of(annotation: Any) -> ValueType:
    """Return the type of an annotation that says something."""
    found = value_type(annotation)
    assert found is not None, annotation
    return found


def checked(annotation: Any, value: Any) -> tuple[str, Any]:
    """Return the text and what is rebuilt of it."""
    return of(annotation).checked(value, DEFAULT_LIMITS, "the result of look:1", key="look:1")


class TestRoundTrip:
    @given(typed)
    def test_a_value_comes_back_equal_and_of_its_class(self, pair: tuple[Any, Any]) -> None:
        """The live run, and every later run, get an equal value, whose text is the same."""
        annotation, value = pair
        text, live = checked(annotation, value)
        again = of(annotation).rebuilt(text, "the result")
        assert live == again == value
        assert type(live) is type(again) is type(value)
        assert dump(again, with_models=True) == text == dump(value, with_models=True)

    @given(typed)
    def test_the_text_is_that_of_the_plain_value(self, pair: tuple[Any, Any]) -> None:
        """A model has the text of the dict of its members, so an equal dict has the same digest."""
        annotation, value = pair
        text, _ = checked(annotation, value)
        plain = load(text)
        assert dump(plain) == text
        assert checked(annotation, plain)[1] == value

    def test_the_members_of_a_model_are_tagged_as_anywhere(self) -> None:
        """Decimals, dates and tuples in a model are written as they are in a dict."""
        order = DataOrder(5, [Item("shoe")], places=(Place(1),), due=date(2026, 1, 2), anything=(1,))
        plain = {
            "number": 5, "items": [{"name": "shoe", "price": Decimal("1.10"), "colour": None}], "by_name": {},
            "places": ((1, 0.0),), "due": date(2026, 1, 2), "made": None, "id": None, "blob": b"", "anything": (1,),
        }  # fmt: skip
        assert dump(order, with_models=True) == dump(plain)
        assert dump(StructOrder(5, Item("a")), with_models=True) == dump(
            {"orderNumber": 5, "onlyItem": {"name": "a", "price": Decimal("1.10"), "colour": None},
             "colours": frozenset()}
        )  # fmt: skip
        assert dump(Push(3), with_models=True) == '{"type":"Push","value":3}'

    def test_a_url_of_pydantic_is_its_text(self) -> None:
        """Pydantic has classes of its own for them."""
        order = PydanticOrder(number=1, link=pydantic.HttpUrl("https://a.example/b"))
        assert checked(PydanticOrder, order)[1] == order

    def test_a_changed_model_reads_old_records(self) -> None:
        """A new member has its default, a member that is gone is dropped."""
        old = make_dataclass("Order", [("number", int), ("gone", str)])
        new = make_dataclass("Order", [("number", int), ("express", bool, field(default=True))])
        text, _ = checked(old, old(5, "x"))
        assert of(new).rebuilt(text, "the input") == new(5, True)

    def test_a_new_member_without_default_is_a_typed_error(self) -> None:
        """It says which value, where, and what to do."""
        new: Any = make_dataclass("Order", [("number", int), ("express", bool)])
        with pytest.raises(RecordedValueInvalid, match="express") as caught:
            of(list[new]).rebuilt('[{"number":5}]', "the input of refund", agent="refund")
        assert (caught.value.path, caught.value.agent, caught.value.expected) == ("$[0]", "refund", "list[Order]")
        assert "the input of refund does not fit list[Order]" in str(caught.value)
        assert "default" in caught.value.hint


class TestMisfits:
    @pytest.mark.parametrize(
        ("annotation", "value", "path"),
        [
            (DataOrder, {"number": "5"}, "$.number"),
            (DataOrder, {}, "$"),
            (DataOrder, [], "$"),
            (DataOrder, {"number": 5, "items": [{"name": "a"}, {"name": 7}]}, "$.items[1].name"),
            (dict[str, DataOrder], {"a": {"number": 1}, "b c": {"number": "x"}}, "$['b c'].number"),
            (
                dict[str, dict[str, list[Item]]],
                {"a": {"b": []}, "c": {"d": [{"name": "x"}], "e": [{"name": 5}]}},
                "$.c.e[0].name",
            ),
            (StructOrder, {"orderNumber": 5, "onlyItem": {"name": 7}}, "$.onlyItem.name"),
            (TypedOrder, {"item": {"name": "a"}}, "$"),
            (PydanticOrder, {"number": 5, "items": [{"name": 7}]}, "$.items[0].name"),
            (PydanticOrder, {"number": 0}, "$.number"),
            (dict[str, PydanticItem], {"a": {"name": []}}, "$.a.name"),
            (Colour, "green", "$"),
            (str, 5, "$"),
            (list[int], [1, "2"], "$[1]"),
            (Annotated[int, msgspec.Meta(gt=3)], 2, "$"),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused_with_its_path(self, annotation: Any, value: Any, path: str) -> None:
        """A new one, and one that is recorded."""
        with pytest.raises(InvalidValue, match=r"the result of look:1 does not fit") as caught:
            checked(annotation, value)
        assert (caught.value.path, caught.value.key) == (path, "look:1")
        assert not isinstance(caught.value, RecordedValueInvalid)
        with pytest.raises(RecordedValueInvalid) as recorded:
            of(annotation).rebuilt(dump(value), "the input")
        assert recorded.value.path == path

    def test_a_pydantic_model_inside_another_model_reports_its_path(self) -> None:
        """The path of the inner model follows that of the outer one."""

        @dataclass
        class Outer:
            orders: list[PydanticOrder]

        assert checked(Outer, Outer([PydanticOrder(number=1)]))[1] == Outer([PydanticOrder(number=1)])
        with pytest.raises(InvalidValue) as caught:
            checked(Outer, {"orders": [{"number": 1}, {"number": 1, "items": [{}]}]})
        assert caught.value.path == "$.orders[1].items[0].name"

    def test_an_error_of_the_models_own_code_is_a_misfit(self) -> None:
        """Whatever ``__post_init__`` or a validator raises."""

        @dataclass
        class Picky:
            number: int

            def __post_init__(self) -> None:
                raise LookupError("no such number")

        with pytest.raises(InvalidValue, match="LookupError: no such number"):
            checked(Picky, {"number": 1})

    @pytest.mark.parametrize(
        ("annotation", "value", "path"),
        [
            (DataOrder, {"number": 5, "itms": []}, "$.itms"),
            (list[DataOrder], [{"number": 5, "items": [{"name": "a", "pric": 1}]}], "$[0].items[0].pric"),
            (StructOrder, {"orderNumber": 5, "onlyItem": {"name": "a"}, "order_number": 6}, "$.order_number"),
            (DataOrder, Derived(5, note="kept?"), "$"),
            (dict[str, DataOrder], {"a": Derived(5)}, "$.a"),
            (TypedOrder, {"number": 5, "item": {"name": "a", "pric": 1}}, "$.item.pric"),
        ],
    )
    def test_a_member_that_would_be_lost_is_refused(self, annotation: Any, value: Any, path: str) -> None:
        """A misspelt one, and one of a subclass: else a run would silently go on without it."""
        with pytest.raises(InvalidValue) as caught:
            checked(annotation, value)
        assert caught.value.path == path

    def test_the_error_names_the_member_that_was_meant(self) -> None:
        """It compares the name with those of the model."""
        with pytest.raises(InvalidValue, match="has no member 'itms'; did you mean 'items'"):
            checked(DataOrder, {"number": 5, "itms": []})

    def test_a_model_that_changes_itself_is_refused(self) -> None:
        """Each time it is rebuilt it would be another one."""

        @dataclass
        class Growing:
            number: int

            def __post_init__(self) -> None:
                self.number += 1

        with pytest.raises(InvalidValue, match="would come back as another one"):
            checked(Growing, Growing(1))

    def test_a_secret_of_pydantic_is_refused(self) -> None:
        """Its text would be its mask."""
        with pytest.raises(UnserializableValue, match="SecretStr"):
            checked(PydanticOrder, PydanticOrder(number=1, secret=pydantic.SecretStr("hush")))

    def test_a_typed_dict_keeps_members_that_it_does_not_name(self) -> None:
        """A dict may have more than its annotation says: nothing of it is lost, also deep inside."""
        value = {"number": 1, "extra": [1], "item": Item("a")}
        assert checked(TypedOrder, value)[1] == value
        assert checked(list[TypedOrder], [value])[1] == [value]

        @dataclass
        class Outer:
            order: TypedOrder

        made = checked(Outer, {"order": {"number": 1, "extra": 2}})[1]
        assert made.order == {"number": 1, "extra": 2}

    def test_a_model_without_an_annotation_is_refused(self) -> None:
        """Nobody could rebuild it. The error says what to do."""
        for value in (Item("a"), PydanticItem(name="a"), StructOrder(1, Item("a"))):
            with pytest.raises(UnserializableValue, match=f"annotate the function .*-> {type(value).__name__}"):
                dump({"order": value})


class TestAnnotations:
    T = TypeVar("T")

    @pytest.mark.parametrize(
        "annotation",
        [Any, object, T, Plain, list[Plain], "DataOrder", DataOrder | Derived],
    )
    def test_an_annotation_that_says_nothing_is_no_type(self, annotation: Any) -> None:
        """Values of it stay what they are."""
        assert value_type(annotation) is None

    @pytest.mark.parametrize(
        ("annotation", "has_models"),
        [
            (int, False),
            (dict[str, list[Decimal]], False),
            (Literal["a"], False),
            (None, False),
            (Mapping[str, Any], False),
            (list[Item], True),
            (NewType("Id", Item), True),
            (Annotated[list[Item] | None, "doc"], True),
            (dict[str, Colour], True),
            (TypedOrder, True),
            (Push | Pull | None, True),
        ],
    )
    def test_a_type_knows_whether_it_names_a_model(self, annotation: Any, has_models: bool) -> None:
        """Only results with models are rebuilt."""
        assert of(annotation).has_models is has_models

    def test_a_type_that_a_call_asks_for_has_to_be_one(self) -> None:
        """The error says what is wrong with it."""
        with pytest.raises(InvalidOption, match="more than one dataclass"):
            asked_type(DataOrder | Derived)
        with pytest.raises(InvalidOption, match="Plain is neither a model"):
            asked_type(list[Plain])
        assert asked_type(Any) is None

    def test_plain_types_are_converted(self) -> None:
        """JSON has no dates: a text becomes one where the annotation says so."""
        assert checked(datetime, "2026-01-02T03:04:05Z")[1] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert checked(Decimal, "1.10") == ('"1.10"', Decimal("1.10"))
        assert checked(timedelta, timedelta(1))[1] == timedelta(1)
        assert checked(float, 5) == ("5", 5.0)
        assert type(checked(float, 5)[1]) is float

    def test_equal_texts_have_one_normal_text(self) -> None:
        """What differs in defaults only is the same value."""
        kind = of(Item)
        assert (
            kind.normal('{"name":"a"}') == kind.normal(dump(Item("a"), with_models=True)) != kind.normal('{"name":"b"}')
        )
        assert kind.normal("5") == "5"


def test_members_of_a_model_are_read_and_replaced() -> None:
    """Of each kind of model; any other value stays as it is."""
    for model in (Item("a"), PydanticItem(name="a"), msgspec.structs.replace(StructOrder(1, Item("a")))):
        name = "order_number" if isinstance(model, StructOrder) else "name"
        assert members_of(model) != model
        assert getattr(with_member(model, name, 7), name) == 7
    assert members_of([1]) == [1]
    assert with_member({"a": 1}, "a", 2) == {"a": 1}
