"""Find the key that msgspec leaves out of a path: it reports ``$[...].price`` for a member of any dict."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<at>\d+)\]")
_ANY = "[...]"


def exact_path(value: Any, path: str, convert: Callable[[Any], Any]) -> str:
    """Return the path with the first key of each dict whose member alone does not convert either.

    ``convert`` raises an error with a ``path``. A dict that cannot be found is left as ``[...]``.
    """
    steps: list[Any] = []
    found, rest = "$", path[1:]
    while rest:
        if rest.startswith(_ANY):
            key = _failing_key(value, steps, f"{found}{_ANY}", convert, path)
            if key is None:
                return found + rest
            step: str | int = key
            shown, rest = f".{key}" if key.isidentifier() else f"[{key[:80]!r}]", rest[len(_ANY) :]
            value = _with_only(value, steps, key)
            path = f"{path[: len(path) - len(rest)]}{rest}"
        elif (match := _STEP.match(rest)) is not None:
            step = match["name"] if match["at"] is None else int(match["at"])
            shown, rest = match[0], rest[match.end() :]
        else:
            return found + rest
        steps.append(step)
        found += shown
    return found


def _failing_key(value: Any, steps: list[Any], prefix: str, convert: Callable[[Any], Any], path: str) -> str | None:
    """Return the first key of the dict at ``steps`` whose member alone fails as the whole does."""
    members = value
    try:
        for step in steps:
            members = members[step]
    except (LookupError, TypeError):
        return None
    if type(members) is not dict:
        return None
    for key in members:
        try:
            convert(_with_only(value, steps, key))
        except Exception as exc:
            if getattr(exc, "path", None) == path:
                return str(key)
    return None


def _with_only(value: Any, steps: list[Any], key: str) -> Any:
    """Return ``value`` with no other member than ``key`` in the dict at ``steps``."""
    if not steps:
        return {key: value[key]}
    first, *others = steps
    copied = dict(value) if isinstance(value, dict) else [*value]
    copied[first] = _with_only(value[first], others, key)
    return copied
