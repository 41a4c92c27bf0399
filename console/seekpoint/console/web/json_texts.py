"""JSON values as the pages show them: short ones on a line, whole ones on many. Pure."""

from __future__ import annotations

from typing import Any

import orjson

_SHORT = 160


def shortened(text: str, characters_max: int = _SHORT) -> str:
    """Return a text of at most ``characters_max`` characters and an ellipsis.

    >>> shortened("abcdef", 3)
    'abc…'
    """
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def short_json(value: Any, characters_max: int = _SHORT) -> str:
    """Return a value as JSON on one line, shortened; text that is no part of another value without its quotes.

    >>> short_json({"a": [1, 2]}), short_json("text"), short_json(None)
    ('{"a":[1,2]}', 'text', 'null')
    """
    return shortened(value if isinstance(value, str) else orjson.dumps(value).decode(), characters_max)


def json_lines(value: Any) -> list[str]:
    """Return a value as indented JSON; None: no lines.

    >>> json_lines({"a": 1}), json_lines(None)
    (['{', '  "a": 1', '}'], [])
    """
    return [] if value is None else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().split("\n")
