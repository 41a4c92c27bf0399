"""``seekpoint diff``: compare two processes, or two moments of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import Column, emit_json, emit_table, say
from seekpoint.console.services.options import AsJson
from seekpoint.console.services.sender import with_node
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers.history.comparing import ProcessDiff

__all__ = ["diff"]

_SHOWN_CHARACTERS_MAX = 60
_Side = Annotated[
    str, typer.Argument(metavar="ID[@SEQ]", help="A process, as of now or after a seq.", show_default=False)
]


def diff(target: CommandTarget, left: _Side, right: _Side, json: AsJson = False) -> None:
    """Compare two processes, or two moments of one: context, conversation, calls, lifecycle, cost and duration.

    Exits with 1 if they differ.
    """
    found = with_node(target.require_kafka(), lambda node: node.diff(left, right))
    if json:
        from msgspec import to_builtins

        emit_json({**to_builtins(found), "is_empty": found.is_empty})
    else:
        columns = (Column(""), Column(left, cut=True), Column(right, cut=True), Column("first difference", wraps=True))
        emit_table(columns, [*_rows(found)])
        say(f"{found.same_calls} calls and {found.same_messages} messages are the same")
    if not found.is_empty:
        raise typer.Exit(1)


def _rows(found: ProcessDiff) -> Iterator[tuple[object, ...]]:
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


def _message(messages: tuple[dict[str, Any], ...], number: int) -> str:
    if number >= len(messages):
        return "-"
    content = messages[number]["content"]
    return f"{messages[number]['role']}: {content if isinstance(content, str) else _shown(content)}"


def _shown(value: Any) -> str:
    from seekpoint.schemas.values.json_values import dump

    text = dump(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
