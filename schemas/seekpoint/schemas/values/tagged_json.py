"""Tagged JSON: dynamic values as JSON types and back, exactly. It is the slow path, for values beyond plain JSON.

A value of a type that JSON does not have becomes an object of one member whose key is a tag: ``{"$tuple": [1, 2]}``.
A user's own object of one member with such a key is wrapped, to tell them apart: ``{"$object": {"$tuple": …}}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import Any, Final

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord, UnserializableValue
from seekpoint.schemas.values.attachment_ref import Ref, read_ref, ref_items
from seekpoint.schemas.values.dates_and_decimals import READERS, WRITERS, Unwritable

__all__ = ["DEPTH_MAX", "from_tagged", "to_tagged"]

DEPTH_MAX: Final = 128
"""The upper bound of the depth limit of any manifest: encoding uses four of Python's thousand frames per level."""

_OBJECT: Final = "$object"
_INEXACT: Final = 2**53
"""The first integer that readers with double-precision numbers cannot represent exactly."""
_BASES: Final = (str, bytes, bool, int, float, dict, list, tuple, set, frozenset)
_SAME_HASH_MAX: Final = 64
"""How many members of a set may have one hash."""

Path = tuple[Any, ...]
"""The path to a value, last step first: ``(step, (step, ()))``. It is formatted only for an error."""


def to_tagged(value: object, limits: Limits, with_models: bool | str = False) -> object:
    """Return ``value`` as JSON types. Raises ``UnserializableValue`` or ``LimitExceeded`` with the path.

    A model (``models``) is refused too, or with ``with_models`` it becomes the object of its members.
    """
    return _Encoder(limits, with_models).encode(value, (), 1)


class _Encoder:
    """The encoder of one value: it counts items and detects cycles."""

    def __init__(self, limits: Limits, with_models: bool | str) -> None:
        self._with_models = with_models
        self._models_met = 0
        self._depth_max = min(limits.depth, DEPTH_MAX)
        self._items_max = limits.items
        self._items = 0
        self._open: set[int] = set()

    def encode(self, value: Any, path: Path, depth: int) -> object:
        kind = type(value)
        if kind is str:
            return self._text(value, path)
        if value is None or kind is bool:
            return value
        if kind is int and -_INEXACT < value < _INEXACT:
            return value
        if kind is float:
            return self._float(value, path)
        if kind in WRITERS:
            return self._tagged(value, path, depth)
        if kind in _CONTAINERS:
            return self._nested(value, path, depth)
        if self._with_models and (parts := _parts_of(value, self._with_models == "set")) is not None:
            self._models_met += 1
            return self._nested(value, path, depth, parts)
        raise _unserializable(f"a value of type {kind.__module__}.{kind.__qualname__}", path, advice(value))

    def _text(self, value: str, path: Path) -> object:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _unserializable(
                "a text with a lone surrogate", path, "encode it to bytes, or leave out what is no character"
            ) from None
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
            raise kind(f"{exc.reason} cannot be journaled", path=_format_path(path), hint=exc.hint) from None

    def _nested(self, value: object, path: Path, depth: int, parts: tuple[Any] | None = None) -> object:
        if id(value) in self._open:
            raise _unserializable("a value that contains itself", path, "break the cycle, for example by naming an id")
        self._open.add(id(value))
        try:
            if parts is not None:
                return self.encode(parts[0], path, depth)
            return _CONTAINERS[type(value)](self, value, path, depth)
        finally:
            self._open.remove(id(value))

    def _list(self, value: Any, path: Path, depth: int) -> object:
        self._enter(len(value), path, depth)
        return [self.encode(item, (index, path), depth + 1) for index, item in enumerate(value)]

    def _dict(self, value: Any, path: Path, depth: int) -> object:
        wrapped = _looks_tagged(value)
        if wrapped:
            self._enter(1, path, depth)
            depth += 1
        self._enter(len(value), path, depth)
        members = {self._key(key, path): self.encode(item, (key, path), depth + 1) for key, item in value.items()}
        return {_OBJECT: members} if wrapped else members

    def _key(self, key: object, path: Path) -> object:
        if type(key) is str:
            return self._text(key, (key, path))
        if self._with_models and (parts := _parts_of(key)) is not None and type(parts[0]) is str:  # a member of an enum
            return self._text(parts[0], (parts[0], path))
        raise _unserializable(f"a key of type {type(key).__qualname__}", path, "make the keys texts: str(key)")

    def _tuple(self, value: Any, path: Path, depth: int) -> object:
        self._enter(1, path, depth)
        return {"$tuple": self._list(value, path, depth + 1)}

    def _ref(self, value: Any, path: Path, depth: int) -> object:
        self._enter(1, path, depth)
        items = ref_items(value)
        try:
            read_ref(items)
        except ValueError:  # every reader would take the entry for poison
            raise _unserializable(
                "a reference that attach never gives", path, "pass the Ref as attach gave it"
            ) from None
        return {"$attachment": self._list(items, path, depth + 1)}

    def _set(self, value: Any, path: Path, depth: int) -> object:
        self._enter(1, path, depth)
        self._enter(len(value), path, depth + 1)
        if _has_colliding_members(value):  # no reader would take it
            raise _unserializable(f"a set with more than {_SAME_HASH_MAX} members of one hash", path, "use a list")
        met = self._models_met
        members = [self.encode(item, (..., path), depth + 2) for item in value]
        if met != self._models_met:  # what a model becomes cannot be in a set: its annotation makes one of a list
            return sorted(members, key=_canonical_json)
        return {f"${type(value).__name__}": sorted(members, key=_canonical_json)}

    def _enter(self, items: int, path: Path, depth: int) -> None:
        self._items += items
        if depth > self._depth_max:
            raise LimitExceeded(f"nested deeper than {self._depth_max}", path=_format_path(path), limit=self._depth_max)
        if self._items > self._items_max:
            raise LimitExceeded(f"more than {self._items_max} items", path=_format_path(path), limit=self._items_max)


def _parts_of(value: object, only_set: bool = False) -> tuple[Any] | None:
    """Return the parts of a model, as a tuple of one; None if the value is none."""
    from seekpoint.schemas.values.models import NO_MODEL, parts_of  # a program without models starts without

    parts = parts_of(value, only_set)
    return None if parts is NO_MODEL else (parts,)


_CONTAINERS: Mapping[type, Callable[[_Encoder, Any, Path, int], object]] = {
    dict: _Encoder._dict,
    list: _Encoder._list,
    tuple: _Encoder._tuple,
    Ref: _Encoder._ref,
    set: _Encoder._set,
    frozenset: _Encoder._set,
}


def from_tagged(value: Any, depth: int = 1) -> Any:
    """Return the dynamic value of tagged JSON. Raises ``UndecodableRecord`` if a tag in it is malformed."""
    if depth > DEPTH_MAX:
        raise UndecodableRecord(f"a dynamic value nested deeper than {DEPTH_MAX}")
    if type(value) is dict:
        return _untagged(value, depth) if _looks_tagged(value) else _object(value, depth)
    return _items(value, depth) if type(value) is list else value


def _untagged(value: dict[str, Any], depth: int) -> Any:
    ((tag, inner),) = value.items()
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


def _object(value: dict[str, Any], depth: int) -> dict[str, Any]:
    return {
        key: from_tagged(item, depth + 1) if type(item) is dict or type(item) is list else item
        for key, item in value.items()
    }


def _items(value: list[Any], depth: int) -> list[Any]:
    return [from_tagged(item, depth + 1) if type(item) is dict or type(item) is list else item for item in value]


def _set_of(members: list[Any]) -> set[Any]:
    if _has_colliding_members(members):
        raise ValueError("its members' hashes collide")
    found = set(members)
    if len(found) != len(members):
        raise ValueError("a member is there twice")
    return found


def _has_colliding_members(members: Collection[Any]) -> bool:
    """Return whether a set of these members costs the square of their number: too many have one hash."""
    return len(members) > _SAME_HASH_MAX and max(Counter(map(hash, members)).values()) > _SAME_HASH_MAX


_BUILDERS: Mapping[str, Callable[[list[Any]], object]] = {
    "$tuple": tuple,
    "$attachment": read_ref,
    "$set": _set_of,
    "$frozenset": lambda members: frozenset(_set_of(members)),
}


def _looks_tagged(value: dict[Any, Any]) -> bool:
    if len(value) != 1:
        return False
    (key,) = value
    return type(key) is str and key[:1] == "$"


def _canonical_json(value: object) -> bytes:
    import orjson

    return orjson.dumps(value, None, orjson.OPT_SORT_KEYS)


def _unserializable(what: str, path: Path, hint: str) -> UnserializableValue:
    return UnserializableValue(f"{what} cannot be journaled", path=_format_path(path), hint=hint)


def _steps(path: Path) -> Iterator[object]:
    while path:
        step, path = path
        yield step


def _format_path(path: Path) -> str:
    """Return a path like ``$.items[3].price``; a member of a set is ``{…}``."""
    return "$" + "".join(map(_step, reversed(list(_steps(path)))))


def _step(step: object) -> str:
    if step is ...:
        return "{…}"
    if isinstance(step, str):
        return f".{step}" if step.isidentifier() and len(step) <= 80 else f"[{step[:80]!r}]"
    return f"[{step}]"


def advice(value: object) -> str:
    """Return a short hint on how to convert ``value``, by its type."""
    kind = type(value)
    if hasattr(kind, "model_dump"):
        return f"annotate the function that returns it (-> {kind.__name__}), or convert it with .model_dump()"
    if hasattr(kind, "__dataclass_fields__"):
        return f"annotate the function that returns it (-> {kind.__name__}), or convert it with dataclasses.asdict()"
    if hasattr(kind, "__struct_fields__"):
        return f"annotate the function that returns it (-> {kind.__name__}), or convert it with msgspec.to_builtins()"
    if isinstance(value, Enum):
        return "use its .value or its .name"
    if hasattr(kind, "_asdict"):
        return "convert it with ._asdict(), or with tuple()"
    for base in _BASES:
        if isinstance(value, base):
            return f"convert it with {base.__name__}(): a subclass would not come back as itself"
    return _by_behaviour(kind)


def _by_behaviour(kind: type) -> str:
    if hasattr(kind, "tolist"):
        return "convert it with .tolist()"
    if hasattr(kind, "__await__"):
        return "await it first"
    if hasattr(kind, "__next__"):
        return "convert it with list()"
    if kind in (bytearray, memoryview):
        return "convert it with bytes()"
    return "convert it to plain types first (str(), a dict of its fields), or leave it out"
