"""Frozen values that are made often: ``msgspec.Struct``, constructed and compared in C, with the fields of a dataclass.

``dataclasses.fields``, ``replace``, ``asdict`` and ``is_dataclass`` work on such a value as on any dataclass.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

T = TypeVar("T")

BUILDING = threading.RLock()
"""Held while msgspec builds what it decodes a type with: two threads that do it for one Struct at once crash."""
_built: set[object] = set()


def built(kind: T) -> T:
    """Return ``kind`` once msgspec has built it, in one thread. Our types are built when their module is imported."""
    if kind not in _built:
        with BUILDING:
            msgspec.json.Decoder(kind)
        _built.add(kind)
    return kind


class _DataclassFields:
    """The ``dataclasses.Field`` of each field by name, made at the first look."""

    def __get__(self, instance: object, owner: Any) -> dict[str, dataclasses.Field[Any]]:
        found: dict[str, dataclasses.Field[Any]] | None = owner.__dict__.get("_dataclass_fields")
        if found is None:
            found = owner._dataclass_fields = _dataclass_fields(owner)
        return found


@cache
def field_types(owner: type[FrozenStruct]) -> Mapping[str, str]:
    """Return the annotation of each field by name, in order, at a tenth of the cost of ``dataclasses.fields``."""
    types = {
        name: text for base in reversed(owner.__mro__) for name, text in vars(base).get("__annotations__", {}).items()
    }
    return {name: str(types[name]) for name in owner.__struct_fields__}


def _dataclass_fields(owner: Any) -> dict[str, dataclasses.Field[Any]]:
    types = field_types(owner)
    names, defaults = owner.__struct_fields__, owner.__struct_defaults__
    given = [*(msgspec.NODEFAULT,) * (len(names) - len(defaults)), *defaults]
    declared = [(name, types[name], _field(default)) for name, default in zip(names, given, strict=True)]
    # Made as keyword-only: then a field without a default may follow one that has some.
    made: Any = dataclasses.make_dataclass(owner.__name__, declared, init=False, repr=False, eq=False, kw_only=True)
    found: dict[str, dataclasses.Field[Any]] = made.__dataclass_fields__
    return found


def _field(default: Any) -> Any:
    if default is msgspec.NODEFAULT:
        return dataclasses.field()
    factory = getattr(default, "factory", None)
    return dataclasses.field(default=default) if factory is None else dataclasses.field(default_factory=factory)


class FrozenStruct(msgspec.Struct, frozen=True):
    """The base of frozen values. A subclass repeats ``frozen=True``, for type checkers."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:
        __dataclass_fields__ = _DataclassFields()
