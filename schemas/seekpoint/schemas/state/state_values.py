"""The base of the values in a state, and what follows from the declaration of their fields: JSON, size and masks.

A field is one line: its name, its type, and a ``Shape`` for the masks. A text needs one; ``PLAIN`` is for a word of
this code's own. In JSON a value is an object without the fields at their defaults, so it can be read without this code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import orjson

from seekpoint.schemas.errors import UnserializableValue
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.mask_shapes import JSON_KINDS, PLAIN, Shape

__all__ = ["Count", "EntryId", "StateValue", "compiled", "encoded", "shape_of", "size_of", "text_width", "texts_in"]

_V = TypeVar("_V", bound="StateValue")

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""A number that the fold counts up: a greater one would leave 64 bits, and the state its JSON."""
EntryId = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]

encoded = msgspec.json.Encoder(order="deterministic").encode
"""Return the JSON of a value or of what is made of values: equal values have equal bytes."""


class StateValue(
    FrozenStruct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename=lambda name: name.removesuffix("_json"),
):
    """The base of the values in a state.

    A default is None, False, 0 or "": msgspec leaves out only defaults that are the same object.
    """


class _Field(msgspec.Struct, frozen=True):
    """What the annotation of a field says."""

    name: str
    key: str
    type: Any
    shape: Shape


@cache
def _fields(cls: type[StateValue]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    keys = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return tuple(_field(cls, name, key, hints[name]) for name, key in keys)


def _field(cls: type[StateValue], name: str, key: str, hint: Any) -> _Field:
    shape: Shape | None = None
    while True:
        if get_origin(hint) is Annotated:
            shape = next((one for one in hint.__metadata__ if isinstance(one, Shape)), shape)
            hint = hint.__origin__
        elif get_origin(hint) in (Union, UnionType):
            [hint] = [one for one in get_args(hint) if one is not NoneType]
        else:
            break
    if shape is None:
        if isinstance(hint, type) and issubclass(hint, StateValue):
            shape = shape_of(hint)
        elif hint in (int, bool, bytes):
            shape = PLAIN
        else:
            raise TypeError(f"{cls.__name__}.{name} needs a Shape, which tells masks what it holds")
    return _Field(name, key, hint, shape)


@cache
def shape_of(cls: type[StateValue]) -> Shape:
    """Return the shape of ``cls``, for the masks."""
    return Shape("row" if cls.__struct_config__.array_like else "record", parts=_Parts(cls))


class _Parts(Mapping[object, Shape]):
    """The shapes of the fields of ``cls`` by key, read from its annotations at the first look: only masks need them."""

    def __init__(self, cls: type[StateValue]) -> None:
        self._cls = cls

    @cached_property
    def _shapes(self) -> dict[object, Shape]:
        return {one.key: one.shape for one in _fields(self._cls)}

    def __getitem__(self, key: object) -> Shape:
        return self._shapes[key]

    def __iter__(self) -> Iterator[object]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def texts_in(value: StateValue) -> list[str | None]:
    """Return the dynamic values in ``value``, as JSON texts."""
    found: list[str | None] = _texts_function(type(value))(value)
    return found


@cache
def _texts_function(cls: type[StateValue]) -> Callable[[Any], list[str | None]]:
    """Return what computes ``texts_in``."""
    lines = []
    for one in _fields(cls):
        part, kind = f"value.{one.name}", get_origin(one.type) or one.type
        if kind is Mapping:
            lines.append(f"if {part} is not None: found += {part}.values()")
        elif issubclass(kind, StateValue):
            lines.append(f"if {part} is not None: found += texts_in({part})")
        elif one.shape.kind in JSON_KINDS or (one.shape.kind == "case" and _all_json(one.shape)):
            lines.append(f"found.append({part})")
    return compiled("texts", "value", ["found = []", *lines, "return found"], {"texts_in": texts_in})


def _all_json(shape: Shape) -> bool:
    return all(one.kind in JSON_KINDS for one in (*shape.of, *shape.parts.values()))


# --- sizes
def text_width(text: str | None) -> int:
    """Return the bytes of ``text`` as a JSON string. Raise ``UnserializableValue`` for a lone surrogate."""
    if text is None:
        return 4
    try:
        return len(orjson.dumps(text))
    except TypeError as exc:
        raise UnserializableValue("a text with a lone surrogate cannot be journaled") from exc


def size_of(value: StateValue | None) -> int:
    """Return the bytes that ``value`` takes in a state's JSON at most; 0 for None.

    They depend on its texts only: a number or a word of this code's own may change later, where there is no room.
    """
    return 0 if value is None else size_function(type(value))(value)


@cache
def size_function(cls: type[StateValue], *, of_keys: bool = False) -> Callable[[Any], int]:
    """Return what computes ``size_of``. ``of_keys``: of objects whose attributes are named as the keys of the JSON."""
    fixed, lines = 3, []  # brackets and a comma
    for one in _fields(cls):
        part, named = f"value.{one.key if of_keys else one.name}", len(one.key) + 4
        if one.type in (int, bool, bytes) or one.shape is PLAIN:
            fixed += named + _WORD_BYTES
        else:
            width = {str: "text", Mapping: "mapping"}.get(get_origin(one.type) or one.type, "value")
            lines.append(f"if {part} is not None: size += {named} + {width}_width({part})")
    names = {"text_width": text_width, "mapping_width": mapping_width, "value_width": size_of}
    return compiled("size", "value", [f"size = {fixed}", *lines, "return size"], names)


_WORD_BYTES = 26


def member_width(key: str, text: str) -> int:
    """Return the bytes of one member of an object of texts."""
    return text_width(key) + text_width(text) + 2


def mapping_width(values: Mapping[str, str]) -> int:
    """Return the bytes of the members of an object of texts."""
    return sum(map(member_width, values, values.values()))


def compiled(name: str, parameters: str, lines: Iterable[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Compile a function. Its text is made of names of fields and keys, which are ours."""
    source = "\n    ".join([f"def {name}({parameters}):", *lines])
    made: dict[str, Any] = {}
    exec(source, names, made)
    function: Callable[..., Any] = made[name]
    return function
