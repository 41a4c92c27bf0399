"""A dynamic value as a tree of plain JSON types, and back: the exact way, for values that are not plain JSON already.

A type JSON does not have becomes an object of one member whose key is its tag: ``{"$tuple": [1, 2]}``. So that a user's
own object of one member with such a key is not taken for one, it is wrapped: ``{"$object": {"$tuple": …}}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, Final

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord, UnserializableValue
from seekpoint.schemas.values.journaling_advice import advice
from seekpoint.schemas.values.type_tags import READERS, WRITERS, Unwritable

__all__ = ["DEPTH_MAX", "from_tree", "to_tree"]

DEPTH_MAX: Final = 128
"""No value nests deeper, whatever a manifest says: a walk takes four of Python's thousand frames a level."""

_OBJECT: Final = "$object"
_ESCAPES: Final = 2**53
"""From here on, a JSON number is no longer exact for readers whose numbers are doubles."""

Path = tuple[Any, ...]
"""The way to a value, newest step first: ``(step, (step, ()))``; written out only for an error."""


def to_tree(value: object, limits: Limits) -> object:
    """The tree of ``value``. Raises ``UnserializableValue`` or ``LimitExceeded`` with the path to what does not fit."""
    return _Planter(limits).plant(value, (), 1)


class _Planter:
    """One walk through one value: counts what it plants, knows where it is."""

    def __init__(self, limits: Limits) -> None:
        self._depth_max = min(limits.depth, DEPTH_MAX)
        self._items_max = limits.items
        self._items = 0
        self._open: set[int] = set()

    def plant(self, value: object, path: Path, depth: int) -> object:
        kind = type(value)
        if kind is str:
            return self._text(value, path)
        if value is None or kind is bool:
            return value
        if kind is int and -_ESCAPES < value < _ESCAPES:  # type: ignore[operator]
            return value
        if kind is float:
            return self._float(value, path)  # type: ignore[arg-type]
        if kind in WRITERS:
            return self._tagged(value, path, depth)
        if kind in _CONTAINERS:
            return self._nested(value, path, depth)
        raise _unserializable(f"a value of type {kind.__module__}.{kind.__qualname__}", path, advice(value))

    def _text(self, value: object, path: Path) -> object:
        try:
            value.encode()  # type: ignore[attr-defined]
        except UnicodeEncodeError:
            raise _unserializable("a text with a lone surrogate", path, "encode it to bytes") from None
        return value

    def _float(self, value: float, path: Path) -> float:
        if isfinite(value):
            return value
        raise _unserializable(
            f"a float that is not finite ({value})", path, "use None, or a text, for a missing number"
        )

    def _tagged(self, value: object, path: Path, depth: int) -> object:
        self._enter(1, path, depth)
        tag, write = WRITERS[type(value)]
        try:
            return {tag: write(value)}
        except Unwritable as exc:
            kind = LimitExceeded if exc.too_large else UnserializableValue
            raise kind(f"{exc.reason} cannot be journaled", path=_written(path), hint=exc.hint) from None

    def _nested(self, value: object, path: Path, depth: int) -> object:
        if id(value) in self._open:
            raise _unserializable("a value that contains itself", path, "break the cycle, for example by naming an id")
        self._open.add(id(value))
        try:
            return _CONTAINERS[type(value)](self, value, path, depth)
        finally:
            self._open.remove(id(value))

    def _list(self, value: Any, path: Path, depth: int) -> object:
        self._enter(len(value), path, depth)
        return [self.plant(item, (index, path), depth + 1) for index, item in enumerate(value)]

    def _dict(self, value: Any, path: Path, depth: int) -> object:
        wrapped = _looks_tagged(value)
        if wrapped:
            self._enter(1, path, depth)
            depth += 1
        self._enter(len(value), path, depth)
        tree = {self._key(key, path): self.plant(item, (key, path), depth + 1) for key, item in value.items()}
        return {_OBJECT: tree} if wrapped else tree

    def _key(self, key: object, path: Path) -> object:
        if type(key) is str:
            return self._text(key, (key, path))
        raise _unserializable(f"a key of type {type(key).__qualname__}", path, "make the keys texts: str(key)")

    def _tuple(self, value: Any, path: Path, depth: int) -> object:
        self._enter(1, path, depth)
        return {"$tuple": self._list(value, path, depth + 1)}

    def _set(self, value: Any, path: Path, depth: int) -> object:
        self._enter(1, path, depth)
        self._enter(len(value), path, depth + 1)
        trees = [self.plant(item, (..., path), depth + 2) for item in value]
        return {f"${type(value).__name__}": sorted(trees, key=_order)}

    def _enter(self, items: int, path: Path, depth: int) -> None:
        self._items += items
        if depth > self._depth_max:
            raise LimitExceeded(f"nested deeper than {self._depth_max}", path=_written(path), limit=self._depth_max)
        if self._items > self._items_max:
            raise LimitExceeded(f"more than {self._items_max} items", path=_written(path), limit=self._items_max)


_CONTAINERS: Mapping[type, Callable[[_Planter, Any, Path, int], object]] = {
    dict: _Planter._dict,
    list: _Planter._list,
    tuple: _Planter._tuple,
    set: _Planter._set,
    frozenset: _Planter._set,
}


def from_tree(tree: Any, depth: int = 1) -> Any:
    """The value of a tree. Raises ``UndecodableRecord`` when a tag in it is not well-formed."""
    if depth > DEPTH_MAX:
        raise UndecodableRecord(f"a dynamic value nested deeper than {DEPTH_MAX}")
    if type(tree) is dict:
        return _untagged(tree, depth) if _looks_tagged(tree) else _object(tree, depth)
    return _items(tree, depth) if type(tree) is list else tree


def _untagged(tree: dict[str, Any], depth: int) -> Any:
    ((tag, inner),) = tree.items()
    try:
        if tag in READERS and type(inner) is str:
            return READERS[tag](inner)
        if tag in _BUILDERS and type(inner) is list:
            return _BUILDERS[tag](_items(inner, depth + 1))
    except (ValueError, ArithmeticError, TypeError) as exc:
        raise UndecodableRecord(f"a malformed {tag} in a dynamic value: {exc}") from exc
    if tag == _OBJECT and type(inner) is dict and _looks_tagged(inner):
        return _object(inner, depth + 1)
    raise UndecodableRecord(f"a malformed or unknown tag in a dynamic value: {tag[:40]!r}")


def _object(tree: dict[str, Any], depth: int) -> dict[str, Any]:
    return {
        key: from_tree(item, depth + 1) if type(item) is dict or type(item) is list else item
        for key, item in tree.items()
    }


def _items(tree: list[Any], depth: int) -> list[Any]:
    return [from_tree(item, depth + 1) if type(item) is dict or type(item) is list else item for item in tree]


def _set_of(members: list[Any]) -> set[Any]:
    # Members made to collide would cost the square of their number: hashes are compared first, as integers.
    if len(members) > 64 and len(set(map(hash, members))) * 2 < len(members):
        raise ValueError("its members' hashes collide")
    found = set(members)
    if len(found) != len(members):
        raise ValueError("a member is there twice")
    return found


_BUILDERS: Mapping[str, Callable[[list[Any]], object]] = {
    "$tuple": tuple,
    "$set": _set_of,
    "$frozenset": lambda members: frozenset(_set_of(members)),
}


def _looks_tagged(value: dict[Any, Any]) -> bool:
    if len(value) != 1:
        return False
    (key,) = value
    return type(key) is str and key[:1] == "$"


def _order(tree: object) -> bytes:
    import orjson

    return orjson.dumps(tree, None, orjson.OPT_SORT_KEYS)


def _unserializable(what: str, path: Path, hint: str) -> UnserializableValue:
    return UnserializableValue(f"{what} cannot be journaled", path=_written(path), hint=hint)


def _steps(path: Path) -> Iterator[object]:
    while path:
        step, path = path
        yield step


def _written(path: Path) -> str:
    """``$.items[3].price``; a member of a set is ``{…}``."""
    return "$" + "".join(map(_step, reversed(list(_steps(path)))))


def _step(step: object) -> str:
    if step is ...:
        return "{…}"
    if isinstance(step, str):
        return f".{step}" if step.isidentifier() and len(step) <= 80 else f"[{step[:80]!r}]"
    return f"[{step}]"
