"""``seekpoint trace``: show the history of a process as OpenTelemetry spans."""

from __future__ import annotations

from typing import Annotated

import typer

from seekpoint.console.render.output import emit, emit_json, say
from seekpoint.console.services.arguments.options import AsJson, ProcessId
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.process_scan import entries_of


def trace(
    target: CommandTarget,
    process_id: ProcessId,
    otlp: Annotated[
        str | None, typer.Option("--otlp", metavar="URL", help="Send it to an OTLP collector (HTTP, JSON).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show a process's history as a trace, or send it to a collector.

    Turns, invocations and calls are OpenTelemetry spans.
    """
    from seekpoint.console.render.otlp_trace import spans_lines, trace_of
    from seekpoint.console.services.histories.trace_collector import send

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
