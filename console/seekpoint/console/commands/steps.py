"""``seekpoint steps | trace``: what an agent's code asked, call by call, from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.command import AsJson, command
from seekpoint.console.commands.ps import ProcessId
from seekpoint.console.render.output import Column, emit, emit_json, emit_table, say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.call_records import CallRecord
    from seekpoint.schemas.bodies.entry import Entry

__all__ = ["entries_of", "register"]

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


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    command(app, "steps")(steps)
    command(app, "trace")(trace)


def entries_of(target: CommandTarget, process_id: str) -> list[Entry]:
    """The entries of a process that count. Raises ``UnknownProcess``, ``JournalGap``."""
    from seekpoint.consumers.recovery.process_history import history
    from seekpoint.producers.durable.replay.recorded_run import applied
    from seekpoint.schemas.errors import JournalGap

    logged = [one for batch in history(target.recoverer, process_id) for one in batch]
    if not logged:
        raise JournalGap("its history is gone from the log, or there was none", process_id=process_id)
    return list(applied(logged, target.log.limits))


def steps(target: CommandTarget, process_id: ProcessId, json: AsJson = False) -> None:
    """Show every call of a process's code, and what it cost.

    Input, output, attempts, time; of turns that are over too.
    """
    from seekpoint.producers.durable.replay.call_records import asked

    found = asked(entries_of(target, process_id))
    if json:
        emit_json({"process_id": process_id, "calls": [one.to_dict() for one in found]})
    elif found:
        emit_table(_COLUMNS, [_row(one) for one in found])
    else:
        say(f"{process_id}: its code has asked nothing")


def _row(one: CallRecord) -> list[object]:
    facts = one.to_dict()
    cost = facts["cost_usd"]
    return [
        one.key,
        one.kind,
        one.status,
        len(one.attempts),
        _span(facts["duration_us"]),
        "-" if cost is None else cost,
        _shown(one.input),
        _failure(facts["error"]) if one.status == "failed" and facts["error"] else _shown(facts["output"]),
    ]


def _failure(error: dict[str, Any]) -> str:
    """An error as a run tells it: its type and message."""
    return _cut(f"{error['type'].rpartition(':')[2]}: {error['message']}")


def _span(duration_us: int | None) -> str:
    return "-" if duration_us is None else f"{duration_us / 1000:,.1f} ms"


def _shown(value: Any) -> str:
    import orjson

    return _cut(orjson.dumps(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"


def trace(
    target: CommandTarget,
    process_id: ProcessId,
    otlp: Annotated[
        str | None, typer.Option("--otlp", metavar="URL", help="Send it to a collector (OTLP over HTTP, JSON).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show a process's history as a trace, or send it.

    Its turns, invocations and calls are OpenTelemetry spans.
    """
    from seekpoint.console.render.spans import send, spans_lines, trace_of

    document = trace_of(entries_of(target, process_id), target.settings.journal)
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    if otlp is not None:
        send(otlp, document)
        say(f"{process_id}: {len(spans)} spans sent as trace {spans[0]['traceId']}")
    if json:
        emit_json(document)
    elif otlp is None:
        for line in spans_lines(spans):
            emit(line)
