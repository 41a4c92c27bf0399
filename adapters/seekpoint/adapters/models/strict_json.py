"""Read the JSON of answers, and tell which of it a journal can carry. Pure."""

from __future__ import annotations

import json
from typing import Any, NoReturn


class JournalableError(ValueError):
    """A text is JSON as clients read it, with what a journal does not carry. ``value`` is what clients read."""

    def __init__(self, value: Any) -> None:
        super().__init__("NaN, Infinity, or half of a surrogate pair")
        self.value = value


def parsed(text: str | bytes) -> Any:
    """Return the value of a text. Raises ``ValueError`` if it is no JSON, ``JournalableError`` if a journal refuses it.

    >>> parsed('{"a": [1]}')
    {'a': [1]}
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except _NotFiniteError:
        raise JournalableError(json.loads(text)) from None
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]  # both are of one type
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise JournalableError(value) from None
    return value


class _NotFiniteError(Exception):
    """A number is not finite."""


def _refuse(name: str) -> NoReturn:
    raise _NotFiniteError(name)
