"""Numbers that JSON in most programs cannot carry, in the form that the journal has for them. Pure."""

from __future__ import annotations

from typing import Any

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def with_json_numbers(value: Any) -> Any:
    """Return plain data whose numbers fit into 64 bits: a larger one becomes ``{"$int": TEXT}``.

    >>> with_json_numbers({"n": [7, 2**70]})
    {'n': [7, {'$int': '1180591620717411303424'}]}
    """
    if isinstance(value, dict):
        return {name: with_json_numbers(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_json_numbers(one) for one in value]
    is_large = isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX
    return {"$int": str(value)} if is_large else value
