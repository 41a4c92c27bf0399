"""Format the entries around a take-over as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from seekpoint.console.demo.journal_reading import Placed
from seekpoint.schemas import bodies as b

_BEFORE, _AFTER = 4, 6
_TEXT_MAX = 60


def excerpt(case: str, log: Sequence[Placed]) -> list[tuple[object, ...]]:
    """Return offset, node, epoch, seq, kind and summary of the entries around the case's last claim."""
    rows: list[tuple[object, ...]] = []
    node, epoch, last = "", 0, 0
    for _, offset, entry in log:
        if entry.process_id != case:
            continue
        if isinstance(entry.body, b.Claim) and entry.body.expected_epoch == epoch:
            node, epoch, last = entry.body.node_id, epoch + 1, len(rows)
        seq = "-" if entry.seq is None else entry.seq
        rows.append((offset, entry.actor or node, epoch, seq, entry.kind, _summary(entry.body)))
    return rows[max(0, last - _BEFORE) : last + _AFTER]


def _summary(body: b.Body) -> str:
    if isinstance(body, b.MessageSaid):
        text = f"{body.role}: {body.content if body.tool_calls is None else _calls(body.tool_calls)}"
    elif isinstance(body, b.ContextUpdated):
        text = f"{body.key} = {body.value}"
    elif isinstance(body, b.ContextUpdatedMany):
        text = ", ".join(f"{key} = {value}" for key, value in body.values.items())
    elif isinstance(body, b.DecisionStarted | b.DecisionMade):
        text = body.key
    elif isinstance(body, b.Claim):
        text = f"{body.node_id} claims the process"
    else:
        text = ""
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _calls(text: str) -> str:
    functions = [call.get("function", {}) for call in orjson.loads(text)]
    return ", ".join(f"{each.get('name')}({each.get('arguments')})" for each in functions)
