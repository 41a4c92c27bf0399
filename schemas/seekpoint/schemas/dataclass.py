"""``dataclass`` of the standard library; a frozen one with slots costs a tenth of its at import, and less at each call.

A node that starts after a crash imports more than a hundred such classes before its first step, and the standard
decorator compiles five methods for each. Here equality, hash and text are written once for all of them, and a
constructor is compiled when it is first used. In every other way a class is the same: fields, ``replace``, ``asdict``,
copies, pickles, signatures, ``FrozenInstanceError``, subclasses made by either decorator. A class that says its own
equality says its own hash; ``InitVar`` is not known.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from threading import local
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass  # a type checker knows what it makes
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, **options: Any) -> Callable[[type], type]:
        """The standard library's decorator with its options; ``frozen`` and ``slots`` together are made here."""
        if frozen and slots:
            return lambda cls: _frozen(cls, **options)
        return dataclasses.dataclass(frozen=frozen, slots=slots, **options)


def _frozen(cls: Any, *, kw_only: bool = False, repr: bool = True) -> Any:
    shared = _SHARED if repr else {name: one for name, one in _SHARED.items() if name != "__repr__"}
    for name, method in shared.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # the standard decorator would compile the constructor to say it
    _here.makes = True
    try:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    finally:
        _here.makes = False
    made.__dataclass_params__ = _Parameters(made.__dataclass_params__, repr)
    if "__init__" not in made.__dict__:
        made.__init__ = _Later(made)
    return made


_here = local()
"""Whether this thread is making a class here."""


class _Parameters:
    """What a class says it was made with: frozen, but to the call above, which would be refused a subclass of it."""

    def __init__(self, given: Any, repr: bool) -> None:
        given.init = given.eq = True
        given.repr = repr
        self._given = given

    @property
    def frozen(self) -> bool:
        return not getattr(_here, "makes", False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)


class _Later:
    """The constructor of a class, until somebody wants it."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Any:
        init = _constructor(self._cls)
        self._cls.__init__ = init  # type: ignore[misc]
        return init.__get__(instance, owner)


def _constructor(cls: Any) -> Any:
    """``__init__``: each field through its slot, which ``__setattr__`` does not guard."""
    names: dict[str, Any] = {"_NOT_GIVEN": _NOT_GIVEN}
    positional: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name = field.name
        names[f"_set_{name}"] = getattr(cls, name).__set__
        given = name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            given = f"_make_{name}() if {name} is _NOT_GIVEN else {name}" if field.init else f"_make_{name}()"
            default = "=_NOT_GIVEN"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            given = name if field.init else f"_default_{name}"
            default = f"=_default_{name}"
        else:
            default = ""
        if field.init:
            (by_name if field.kw_only else positional).append(name + default)
        if field.init or default:
            lines.append(f"    _set_{name}(self, {given})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *by_name] if by_name else [])])
    lines = [f"def make({', '.join(names)}):", f"  def __init__({parameters}):", *(lines or ["    pass"])]
    made: dict[str, Any] = {}
    module = sys.modules.get(cls.__module__)  # where its annotations mean something
    exec("\n".join([*lines, "  return __init__"]), {} if module is None else vars(module), made)  # of field names
    init = made["make"](**names)
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    init.__annotations__ = {one.name: one.type for one in dataclasses.fields(cls) if one.init} | {"return": None}
    return init


class _NotGiven:
    def __repr__(self) -> str:
        return "<factory>"


_NOT_GIVEN = _NotGiven()


def _compared(one: Any) -> Any:
    """What of it is compared."""
    return _comparison(one.__class__)(one)


@cache
def _comparison(cls: Any) -> Callable[[object], Any]:
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)  # a tuple too: NaN equals itself in one


def _equal(self: object, other: object) -> Any:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: object) -> int:
    return hash(_compared(self))  # not of the class, which hashes otherwise in each run


@recursive_repr()
def _text(self: Any) -> str:
    parts = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(parts)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _kept(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _take_up(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_SHARED: dict[str, Any] = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _text,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _kept,
    "__setstate__": _take_up,
}
