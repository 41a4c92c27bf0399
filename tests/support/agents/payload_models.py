"""The models of the tests: one order as each kind of model, and what each of them has inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, Required, TypedDict
from uuid import UUID

import msgspec
import pydantic

__all__ = [
    "Colour",
    "DataOrder",
    "Derived",
    "Item",
    "Place",
    "Pull",
    "Push",
    "PydanticItem",
    "PydanticOrder",
    "StructOrder",
    "TypedOrder",
]


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    """A point."""

    x: int
    y: float = 0.0


@dataclass(frozen=True)
class Item:
    """An item of an order."""

    name: str
    price: Decimal = Decimal("1.10")
    colour: Colour | None = None


@dataclass
class DataOrder:
    """An order as a dataclass, with all kinds of members."""

    number: int
    items: list[Item] = field(default_factory=list)
    by_name: dict[str, Item] = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    due: date | None = None
    made: datetime | None = None
    id: UUID | None = None
    blob: bytes = b""
    anything: Any = None


@dataclass
class Derived(DataOrder):
    """An order with one member more."""

    note: str = ""


class StructOrder(msgspec.Struct, frozen=True, rename="camel"):
    """An order as a struct whose members have other names in JSON."""

    order_number: int
    only_item: Item
    colours: frozenset[Colour] = frozenset()


class Push(msgspec.Struct, tag=True):
    """One of two structs that their tags tell apart."""

    value: int


class Pull(msgspec.Struct, tag=True):
    """The other one."""

    value: int


class TypedOrder(TypedDict, total=False):
    """An order as a dict."""

    number: Required[int]
    item: Item


class PydanticItem(pydantic.BaseModel):
    """An item as a pydantic model."""

    name: str
    price: Decimal = Decimal("1.10")


class PydanticOrder(pydantic.BaseModel):
    """An order as a pydantic model."""

    kind: Literal["order"] = "order"
    number: int = pydantic.Field(gt=0)
    items: list[PydanticItem] = []
    colours: set[Colour] = set()
    made: datetime | None = None
    link: pydantic.HttpUrl | None = None
    secret: pydantic.SecretStr | None = None
