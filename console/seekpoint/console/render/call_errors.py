"""The error of a call on one line."""

from __future__ import annotations

from typing import Any


def error_text(error: Any) -> str:
    """Return an error as ``seekpoint run`` prints it: its type and message. Another client may have written any JSON.

    >>> error_text({"type": "shop:NoRoom", "message": "full"}), error_text([7])
    ('NoRoom: full', '[7]')
    """
    import orjson

    if isinstance(error, dict) and isinstance(error.get("type"), str) and "message" in error:
        return f"{error['type'].rpartition(':')[2]}: {error['message']}"
    return orjson.dumps(error).decode()
