"""Each member of a model comes back equal, or the value is refused with the path of the member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.errors import InvalidValue
from seekpoint.schemas.values.value_types import value_type

T = TypeVar("T")


class Animal(BaseModel):
    name: str


class Cat(Animal):
    """Adds nothing."""


class Dog(Animal):
    tricks: int


class Owner(BaseModel):
    pet: Animal
    others: dict[str, list[Animal]] = {}


class Job(BaseModel):
    name: str
    cursor: int = Field(default=0, exclude=True)


class Box(BaseModel):
    content: Any


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Page(BaseModel):
    number: int
    _cursor: str = PrivateAttr(default="")
    _lock: Any = PrivateAttr(default_factory=Lock)


class Patch(BaseModel):
    name: str | None = None
    email: str | None = None
    tags: list[str] = Field(default_factory=list)


class Event(BaseModel):
    id: UUID = Field(default_factory=uuid4)
    name: str = ""


class Generics(BaseModel, Generic[T]):
    content: T


@dataclass
class Stable:
    """Of another library."""

    pet: Animal
    hidden: int = field(default=0, compare=False)


@dataclass
class Pony:
    name: str


@dataclass
class Foal(Pony):
    """Adds nothing."""


@dataclass
class Farm:
    pony: Pony


class Pair(NamedTuple):
    left: Pony
    right: int


def page(cursor: str) -> Page:
    made = Page(number=1)
    made._cursor = cursor
    return made


LOST: list[tuple[Any, Any, str]] = [
    (Owner, Owner(pet=Dog(name="Rex", tricks=3)), "$.pet"),
    (Owner, Owner(pet=Cat(name="Tom")), "$.pet"),
    (list[Owner], [Owner(pet=Dog(name="Rex", tricks=3))], "$[0].pet"),
    (Owner, Owner(pet=Animal(name="A"), others={"a": [Animal(name="B"), Cat(name="C")]}), "$.others.a[1]"),
    (Owner, {"pet": Dog(name="Rex", tricks=3)}, "$.pet"),
    (Job, Job(name="x", cursor=17), "$.cursor"),
    (Box, Box(content=Animal(name="Rex")), "$.content"),
    (Box, Box(content=[{"a": Animal(name="Rex")}]), "$.content[0].a"),
    (Open, Open.model_validate({"further": Animal(name="Rex")}), "$.further"),
    (Page, page("abc"), "$._cursor"),
    (Stable, Stable(Dog(name="Rex", tricks=3)), "$.pet"),
    (Farm, Farm(Foal("x")), "$.pony"),
    (Pair, Pair(Foal("x"), 1), "$.left"),
]


@pytest.mark.parametrize("is_result", [False, True])
@pytest.mark.parametrize(("annotation", "value", "path"), LOST)
def test_a_member_that_would_be_lost_is_refused_with_its_path(
    annotation: Any, value: Any, path: str, is_result: bool
) -> None:
    """Never a silent default, a parent class, or a dict."""
    kind = value_type(annotation)
    assert kind is not None
    with pytest.raises(InvalidValue) as refused:
        kind.checked(value, DEFAULT_LIMITS, "the result", is_result=is_result)
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("annotation", "make"),
    [
        (Owner, lambda: Owner(pet=Animal(name="A"), others={"a": [Animal(name="B")]})),
        (Job, lambda: Job(name="x")),
        (Box, lambda: Box(content=[{"a": (1, 2.0)}])),
        (Open, lambda: Open.model_validate({"further": 1})),
        (Page, lambda: page("")),
        (Patch, lambda: Patch(name="Ann")),
        (Patch, lambda: Patch(email=None, tags=["x"])),
        (list[Patch], lambda: [Patch(), Patch(tags=[])]),
        (Generics[int], lambda: Generics(content=1)),
        (Stable, lambda: Stable(Animal(name="A"), 5)),
        (Event, lambda: Event()),
        (Pair, lambda: Pair(Pony("x"), 1)),
    ],
)
def test_all_other_members_come_back(annotation: Any, make: Callable[[], Any]) -> None:
    """Those that were not set too, unless a default is made anew each time."""
    kind, value = value_type(annotation), make()
    assert kind is not None
    text, made = kind.checked(value, DEFAULT_LIMITS, "the result", is_result=True)
    for one in (made, kind.rebuilt(text, "the result")):
        if annotation is not Page:  # its locks are equal to themselves only
            assert one == value
        pairs = zip(one, value, strict=True) if isinstance(value, list) else [(one, value)]
        for left, right in pairs:
            if isinstance(right, Patch):
                assert left.model_fields_set == right.model_fields_set
    full, _ = kind.checked(value, DEFAULT_LIMITS, "the input")
    assert not isinstance(value, Patch) or '"email"' in full  # digests of calls are of all members
