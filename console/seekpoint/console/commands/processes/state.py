"""``seekpoint state``: show the state of a process, now or at a point in its past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import clean, emit, emit_json
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.points import Point
from seekpoint.console.services.arguments.options import AsJson, ProcessId, Wide
from seekpoint.console.services.arguments.time_option import parse_time


def state(
    target: CommandTarget,
    process_id: ProcessId,
    at_seq: Annotated[int | None, typer.Option("--at-seq", help="The state right after this seq.")] = None,
    at_offset: Annotated[
        int | None, typer.Option("--at-offset", help="The state as of this offset, inclusive.")
    ] = None,
    at_time: Annotated[
        str | None,
        typer.Option(
            "--at-time", metavar="TIME", help="The state before this time: 2h (ago), or 2026-11-22T17:00+00:00."
        ),
    ] = None,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """Show a process's state, now or at a point in the past."""
    from seekpoint.console.render.states import state_facts, state_lines

    requested = point(at_seq, at_offset, at_time)
    found = target.recoverer.recover(process_id, point=requested)
    facts = state_facts(process_id, found)
    if json:
        emit_json(facts)
    else:
        for line in state_lines(facts, wide=wide):
            emit(clean(line))


def point(at_seq: int | None, at_offset: int | None, at_time: str | None) -> Point:
    """Return the requested point; without options it is now. Raises ``BadParameter`` for two points, or a bad time."""
    from seekpoint.consumers.recovery.points import Point

    if sum(each is not None for each in (at_seq, at_offset, at_time)) > 1:
        raise typer.BadParameter("give only one of --at-seq, --at-offset and --at-time", param_hint="--at-…")
    if at_seq is not None and at_seq < 1:
        raise typer.BadParameter("a seq is a number from 1 on", param_hint="--at-seq")
    if at_offset is not None and at_offset < 0:
        raise typer.BadParameter("an offset is a number from 0 on", param_hint="--at-offset")
    return Point(seq=at_seq, offset=at_offset, time=None if at_time is None else parse_time(at_time))
