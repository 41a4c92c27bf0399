"""Masking of the fields of entries: plain texts, JSON texts, and constants of the format, which are no user data."""

from __future__ import annotations

from typing import Any

from seekpoint.consumers.staging.masks.mask_values import DROPPED, REDACTED, Mask, dumped
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.values.json_values import check

_OUTCOMES = {"succeeded", "failed", "retry", "unknown", "stuck", "done", "dropped"}
_ANSWERS = {"approved", "denied", "signalled", "timed_out"}
_CONSTANTS = {
    "outcome": frozenset(_OUTCOMES | _ANSWERS),
    "mode": frozenset({"both", "conversation_only", "code_only", "summarize"}),
    "semantics": frozenset({"idempotent", "at_most_once", "observe_only"}),
    "effects": frozenset({"refused", "recorded", "live"}),
    "settled_by": frozenset({"call", "reconciler", "evidence", "person", "dispatcher"}),
}
"""The constants of the format by field. They are never masked, because the fold needs them."""


def text_or_none(mask: Mask, value: str | None, names: tuple[str, ...]) -> str | None:
    """Mask a text; None if it is None or a rule drops it."""
    if value is None:
        return None
    found = mask.text(value, names)
    return None if found is DROPPED else str(found)


def text_of(mask: Mask, value: str, names: tuple[str, ...]) -> str:
    """Mask a text; empty if a rule drops it."""
    return text_or_none(mask, value, names) or ""


def constant_or_text(mask: Mask, name: str, value: str) -> str:
    """Mask a field, unless its value is a constant of the format."""
    return value if value in _CONSTANTS.get(name, ()) else text_of(mask, value, (name,))


def json_text(mask: Mask, text: str, names: tuple[str, ...], dropped: Any = "null") -> Any:
    """Mask a JSON text. Redact it as a whole if masking makes it invalid, for example a set with equal members."""
    found = mask.json(text, names)
    if found is DROPPED:
        return dropped
    try:
        check(found)
    except SeekpointError:
        return dumped(REDACTED)
    return found
