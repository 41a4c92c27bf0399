"""The first difference of two values, in words: of a request and its record, or of two processes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from seekpoint.schemas.values.json_values import dump

_SHOWN_CHARACTERS_MAX = 120
_SHOWN_BEFORE = 20


def first_difference(expected: Any, actual: Any, path: str = "$") -> str | None:
    """Return the first difference of two values: ``$.messages[2].content: "old" is now "new"``; None if they are equal.

    >>> first_difference({"model": "a", "n": 1}, {"model": "b", "n": 1})
    '$.model: "a" is now "b"'
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in [*expected, *(name for name in actual if name not in expected)]:
            here = f"{path}.{name}"
            if name not in actual:
                return f"{here}: {_shown(expected[name])} is gone"
            if name not in expected:
                return f"{here}: {_shown(actual[name])} is new"
            if (found := first_difference(expected[name], actual[name], here)) is not None:
                return found
        return None
    if _is_list(expected) and _is_list(actual):
        for at, (old, new) in enumerate(zip(expected, actual, strict=False)):
            if (found := first_difference(old, new, f"{path}[{at}]")) is not None:
                return found
        if len(expected) != len(actual):
            at = min(len(expected), len(actual))
            longer, change = (expected, "is gone") if len(expected) > len(actual) else (actual, "is new")
            return f"{path}[{at}]: {_shown(longer[at])} {change}"
        return None
    old, new = dump(expected), dump(actual)
    if old == new:
        return None
    return f"{path}: {_cut(old, new)} is now {_cut(new, old)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: Any) -> str:
    return _cut(dump(value))


def _cut(text: str, other: str = "") -> str:
    """Return an excerpt of ``text``; of a long one the part around the first difference from ``other``."""
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))
    begin = max(0, alike - _SHOWN_BEFORE) if alike >= _SHOWN_CHARACTERS_MAX else 0
    shown = text[begin : begin + _SHOWN_CHARACTERS_MAX]
    return f"{'…' if begin else ''}{shown}{'…' if begin + len(shown) < len(text) else ''}"
