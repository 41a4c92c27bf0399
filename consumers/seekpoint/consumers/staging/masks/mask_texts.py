"""Fields of entries, masked: plain texts, JSON texts, and words of the format itself, which are nobody's data."""

from __future__ import annotations

from typing import Any

from seekpoint.consumers.staging.masks.mask_values import DROPPED, REDACTED, Mask, dumped
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.values.json_values import check

__all__ = ["json_text", "text_of", "text_or_none", "word_or_text"]

_OUTCOMES = {"succeeded", "failed", "retry", "unknown", "stuck", "done", "dropped"}
_ANSWERS = {"approved", "denied", "signalled", "timed_out"}
_WORDS = {
    "outcome": frozenset(_OUTCOMES | _ANSWERS),
    "semantics": frozenset({"idempotent", "at_most_once", "observe_only"}),
    "settled_by": frozenset({"call", "reconciler", "evidence", "person", "dispatcher"}),
}
"""By the name of a field, what the format itself writes there: without it nothing folds any more."""


def text_or_none(mask: Mask, value: str | None, names: tuple[str, ...]) -> str | None:
    """None also if it is dropped."""
    if value is None:
        return None
    found = mask.text(value, names)
    return None if found is DROPPED else str(found)


def text_of(mask: Mask, value: str, names: tuple[str, ...]) -> str:
    """Empty if it is dropped."""
    return text_or_none(mask, value, names) or ""


def word_or_text(mask: Mask, name: str, value: str) -> str:
    """A field that may hold a word of the format, which stays."""
    return value if value in _WORDS.get(name, ()) else text_of(mask, value, (name,))


def json_text(mask: Mask, text: str, names: tuple[str, ...], dropped: Any = "null") -> Any:
    """JSON text; one that is no dynamic value any more (a set in which two became one) is redacted as a whole."""
    found = mask.json(text, names)
    if found is DROPPED:
        return dropped
    try:
        check(found)
    except SeekpointError:
        return dumped(REDACTED)
    return found
