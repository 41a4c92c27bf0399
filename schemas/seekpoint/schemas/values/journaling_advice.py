"""Advice on converting a value that cannot be journaled into one that can."""

from __future__ import annotations

from enum import Enum

_BASES = (str, bytes, bool, int, float, dict, list, tuple, set, frozenset)


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
