"""The error of a call on one line, and what else is to be said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.call_records import CallRecord

_NOTES = {
    "rewound_at_seq": "rewound", "answered_by": "answered", "promoted_from": "promoted", "inherited_from": "inherited",
}  # fmt: skip


def call_note(call: CallRecord) -> str | None:
    """Return ``rewound`` if the process went back to before the call, or how another process gave its answer."""
    return next((note for fact, note in _NOTES.items() if fact in call.facts), None)


def error_text(error: Any) -> str:
    """Return an error as ``seekpoint run`` prints it: its type and message. Another client may have written any JSON.

    >>> error_text({"type": "shop:NoRoom", "message": "full"}), error_text([7])
    ('NoRoom: full', '[7]')
    """
    import orjson

    if isinstance(error, dict) and isinstance(error.get("type"), str) and "message" in error:
        return f"{error['type'].rpartition(':')[2]}: {error['message']}"
    return orjson.dumps(error).decode()
