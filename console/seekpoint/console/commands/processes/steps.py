"""``seekpoint steps``: list the calls of an agent's code, read from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import Column, emit_json, emit_table, say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.call_records import CallRecord
from seekpoint.console.services.options import AsJson, ProcessId
from seekpoint.console.services.process_scan import entries_of

__all__ = ["steps"]

_COLUMNS = (
    Column("call"),
    Column("kind"),
    Column("status"),
    Column("attempts", right=True),
    Column("took", right=True),
    Column("usd", right=True),
    Column("input", cut=True),
    Column("output", cut=True),
)
_SHOWN_CHARACTERS_MAX = 60


def steps(target: CommandTarget, process_id: ProcessId, json: AsJson = False) -> None:
    """Show every call of a process's code, and what it cost.

    Each row has input, output, attempts and time. Calls of earlier turns are included, and those that a fork inherits.
    """
    from seekpoint.producers.history.inherited_calls import calls_of

    found = calls_of(lambda name: entries_of(target, name), process_id)
    if json:
        emit_json({"process_id": process_id, "calls": [one.to_dict() for one in found]})
    elif found:
        emit_table(_COLUMNS, [_row(one) for one in found])
    else:
        say(f"{process_id}: its code has made no calls")


def _row(call: CallRecord) -> list[object]:
    facts = call.to_dict()
    cost = facts["cost_usd"]
    return [
        call.key,
        call.kind,
        f"{call.status}, inherited" if facts.get("inherited_from") else call.status,
        len(call.attempts),
        _span(facts["duration_us"]),
        "-" if cost is None else cost,
        _shown(call.input),
        _failure(facts["error"]) if call.status == "failed" and facts["error"] else _shown(facts["output"]),
    ]


def _failure(error: dict[str, Any]) -> str:
    """Return an error as ``seekpoint run`` prints it: its type and message."""
    return _cut(f"{error['type'].rpartition(':')[2]}: {error['message']}")


def _span(duration_us: int | None) -> str:
    return "-" if duration_us is None else f"{duration_us / 1000:,.1f} ms"


def _shown(value: Any) -> str:
    import orjson

    return _cut(orjson.dumps(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
