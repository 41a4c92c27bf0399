"""The filter of ``seekpoint top``: words such as ``agent:refund failed since:2h``. Pure."""

from __future__ import annotations

from typing import Any

from seekpoint.console.web.data.board import ONLY, ListQuery
from seekpoint.console.web.failures import BadRequest

_NAMED = ("agent", "status", "since", "sort")
FILTER_HELP = f"PREFIX, {', '.join(f'{name}:…' for name in _NAMED)}, {', '.join(ONLY)}"


def query_of(words: str, limit: int) -> ListQuery:
    """Return the query that ``words`` mean. Raises ``BadRequest``, whose message says what is wrong.

    >>> query_of("case- agent:refund failed", 10).agent
    'refund'
    """
    given: dict[str, Any] = {}
    only: list[str] = []
    for word in words.split():
        name, colon, value = word.partition(":")
        if word in ONLY:
            only.append(word)
        elif colon and name in _NAMED:
            given["lifecycle" if name == "status" else name] = value
        elif "prefix" not in given:
            given["prefix"] = word
        else:
            raise BadRequest(400, "BadQuery", f"{word} is not understood; a filter has {FILTER_HELP}")
    query = ListQuery(**given, only=tuple(only), limit=limit)
    query.process_query()
    return query
