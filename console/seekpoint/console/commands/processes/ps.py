"""``seekpoint ps``: list the processes of a journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import emit_json_list, emit_table, say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    pass
from seekpoint.console.services.options import AsJson
from seekpoint.console.services.process_scan import scan_processes

__all__ = ["ps"]


def ps(
    target: CommandTarget,
    from_log: Annotated[bool, typer.Option("--from-log", help="Read the whole log, even if there is a view.")] = False,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Also show epoch, mailbox, newest offset and lag.")
    ] = False,
    json: AsJson = False,
) -> None:
    """List the journal's processes: from the view, sorted by id, or from the log, sorted by partition and id."""
    from seekpoint.console.render import states

    target.require_kafka()
    found = _from_log(target, "--from-log") if from_log else _from_view_or_log(target)
    columns, row = (
        (states.WIDE_PROCESS_COLUMNS, states.wide_process_row) if wide else (states.PROCESS_COLUMNS, states.process_row)
    )
    if json:
        emit_json_list({"journal": target.settings.journal}, "processes", found)
    elif not emit_table(columns, map(row, found)):
        say(f"the journal {target.settings.journal} has no processes yet")


def _from_view_or_log(target: CommandTarget) -> Iterator[dict[str, Any]]:
    """Yield processes from the view. If the view becomes unusable, yield the remaining ones from the log."""
    from seekpoint.console.render.listing import ViewGone, from_view

    last = ""
    try:
        for facts in from_view(target):
            last = facts["process_id"]
            yield facts
    except ViewGone as gone:
        yield from _from_log(target, gone.why, after=last)


def _from_log(target: CommandTarget, why: str, after: str = "") -> Iterator[dict[str, Any]]:
    """Yield processes from the log whose id sorts after ``after``."""
    from seekpoint.console.render.states import process_facts

    say(f"reading from the log: {why}")
    for process_id, partition, state in scan_processes(target):
        if process_id > after:
            yield process_facts(process_id, partition, state) | {"behind": 0}
