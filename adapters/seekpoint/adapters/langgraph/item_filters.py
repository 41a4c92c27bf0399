"""Choose the items and namespaces of a store that a search wants. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph.store.base import MatchCondition

from seekpoint.errors import Refused

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": lambda value, wanted: bool(value == wanted),
    "$ne": lambda value, wanted: bool(value != wanted),
    "$gt": lambda value, wanted: value is not None and float(value) > float(wanted),
    "$gte": lambda value, wanted: value is not None and float(value) >= float(wanted),
    "$lt": lambda value, wanted: value is not None and float(value) < float(wanted),
    "$lte": lambda value, wanted: value is not None and float(value) <= float(wanted),
}


def matches(value: Any, wanted: Any) -> bool:
    """Return whether a member of an item is what a filter wants: equal, or as operators such as ``$gt`` say.

    >>> matches(3, {"$gte": 3, "$lt": 5}), matches({"a": {"b": 1}}, {"a": {"b": 1}}), matches(None, {"$gt": 0})
    (True, True, False)
    """
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_operator(name)(value, limit) for name, limit in wanted.items())
        return isinstance(value, dict) and all(matches(value.get(name), part) for name, part in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and len(value) == len(wanted) and all(map(matches, value, wanted))
    return bool(value == wanted)


def _operator(name: str) -> Callable[[Any, Any], bool]:
    try:
        return _OPERATORS[name]
    except KeyError:
        raise Refused("a filter has no such operator", asked=name[:40], hint=f"use {', '.join(_OPERATORS)}") from None


def is_match(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Return whether a namespace begins, or ends, with the path of a condition. A ``*`` stands for any label.

    >>> is_match(MatchCondition("suffix", ("*", "v1")), ("docs", "drafts", "v1"))
    True
    """
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
