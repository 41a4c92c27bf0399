"""A frozen struct is a dataclass to everybody who asks."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping

import pytest
from msgspec import field

from seekpoint.schemas.bodies import BODIES
from seekpoint.schemas.frozen_struct import FrozenStruct


class Point(FrozenStruct, frozen=True):
    """A field without a default, one with, one with a factory."""

    x: int
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


def test_the_functions_of_dataclasses_take_a_frozen_struct() -> None:
    """fields, replace, asdict and is_dataclass: with names, types, defaults and factories."""
    point = Point(1, tags={"a": "b"})
    x, name, tags = dataclasses.fields(Point)
    assert (x.name, x.type, x.default) == ("x", "int", dataclasses.MISSING)
    assert (name.name, name.type, name.default) == ("name", "str | None", None)
    assert tags.default_factory is dict
    assert dataclasses.fields(point) == (x, name, tags)
    assert dataclasses.is_dataclass(point)
    assert dataclasses.asdict(point) == {"x": 1, "name": None, "tags": {"a": "b"}}
    assert dataclasses.replace(point, x=2) == Point(2, None, {"a": "b"})


def test_a_frozen_struct_is_frozen_equal_hashed_and_copied() -> None:
    """As the values of a state have to be."""
    point = Point(1, "a")
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]  # refused at run time too
    assert point == Point(1, "a") != Point(2, "a")
    assert (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))) == (point, point, point)
    assert Point(1).tags is not Point(1).tags
    assert repr(Point(1)) == "Point(x=1, name=None, tags={})"


@pytest.mark.parametrize("body", BODIES)
def test_a_body_has_the_fields_of_its_own_class(body: type) -> None:
    """Not those of a class that was looked at before."""
    assert [one.name for one in dataclasses.fields(body)] == [*body.__annotations__]
