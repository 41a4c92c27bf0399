"""Rows that show the comparison of two processes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import counted, emit
from seekpoint.console.render.tables import Column

if TYPE_CHECKING:
    from seekpoint.producers.history.comparing import ProcessDiff

_SHOWN_CHARACTERS_MAX = 60
_TITLES_CHARACTERS_MAX = 40


def diff_columns(left: str, right: str) -> tuple[Column, ...]:
    """Return the columns of ``diff_rows``. Long names are printed first, and the columns are called left and right."""
    if len(left) + len(right) > _TITLES_CHARACTERS_MAX:
        emit(f"left:  {left}")
        emit(f"right: {right}")
        left, right = "left", "right"
    return Column(""), Column(left, cut=True), Column(right, cut=True), Column("first difference", wraps=True)


def diff_rows(found: ProcessDiff) -> Iterator[tuple[object, ...]]:
    """Yield what differs: what it is, left, right, and where it first differs."""
    left, right = found.left, found.right
    yield "lifecycle", left.lifecycle, right.lifecycle, ""
    yield "entries", left.seq, right.seq, ""
    yield "cost in USD", left.cost_usd or "-", right.cost_usd or "-", ""
    yield "seconds", f"{left.duration_s:.1f}", f"{right.duration_s:.1f}", ""
    for key, values in found.context.items():
        missing = found.missing.get(key)
        shown = [
            "-" if missing == side else _shown(value) for side, value in zip(("left", "right"), values, strict=True)
        ]
        yield f"context {key}", *shown, ""
    for number in range(max(len(found.left_messages), len(found.right_messages))):
        sides = [_message(side, number) for side in (found.left_messages, found.right_messages)]
        yield f"message {found.same_messages + number + 1}", *sides, ""
    for call in (*found.changed, *found.only_left, *found.only_right):
        yield f"{call.kind} {call.key}", call.left or "-", call.right or "-", call.difference or ""


def same_line(found: ProcessDiff) -> str:
    """Return how much did not differ, as a sentence."""
    calls, messages = counted(found.same_calls, "call"), counted(found.same_messages, "message")
    return f"the same in both: {calls}, {messages}"


def _message(messages: tuple[dict[str, Any], ...], number: int) -> str:
    if number >= len(messages):
        return "-"
    content = messages[number]["content"]
    return f"{messages[number]['role']}: {content if isinstance(content, str) else _shown(content)}"


def _shown(value: Any) -> str:
    from seekpoint.schemas.values.json_values import dump

    text = dump(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
