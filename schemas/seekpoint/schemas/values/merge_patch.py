"""JSON merge patches (RFC 7386): changes of nested values of a context."""

from __future__ import annotations

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply an RFC 7386 merge patch to ``target``: dicts are merged, None removes a member, other values replace.

    Neither argument is changed. The result shares the members that the patch does not touch.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
    {'b': {'c': 4, 'd': 3}}
    """
    if type(patch) is not dict:
        return patch
    merged = dict(target) if type(target) is dict else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged
