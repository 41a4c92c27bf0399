"""``seekpoint ps``: list the processes of a journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import emit_json_list, say
from seekpoint.console.render.tables import emit_table
from seekpoint.console.services.arguments.options import AsJson, Since, Wide
from seekpoint.console.services.arguments.process_query import SORTS, STATUSES, ProcessQuery
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.arguments.time_option import since_us

if TYPE_CHECKING:
    from seekpoint.consumers.heartbeats.worker_code import WorkerCode


def ps(
    target: CommandTarget,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent's.")] = None,
    lifecycle: Annotated[
        str | None, typer.Option("--lifecycle", metavar="WORD", help=f"Only these: {', '.join(STATUSES)}.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those whose run failed.")] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only those that wait for a timer, gate, signal, child, start or retry.")
    ] = False,
    unfinished: Annotated[bool, typer.Option("--open", help="Only those that have not finished.")] = False,
    since: Since = None,
    sort: Annotated[str, typer.Option("--sort", metavar="WORD", help=f"The order: {', '.join(SORTS)}.")] = "id",
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    shared: Annotated[bool, typer.Option("--all", help="Also shared values, which nobody runs.")] = False,
    from_log: Annotated[bool, typer.Option("--from-log", help="Read the whole log, even if there is a view.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """List the journal's processes: from the view, sorted by id, or from the log, sorted by partition and id."""
    from seekpoint.console.render.states import PROCESS_COLUMNS, process_row

    if lifecycle not in (None, *STATUSES):
        raise typer.BadParameter(f"one of {', '.join(STATUSES)}", param_hint="--lifecycle")
    if sort not in SORTS:
        raise typer.BadParameter(f"one of {', '.join(SORTS)}", param_hint="--sort")
    query = ProcessQuery(
        agent=agent, status=lifecycle, failed=failed, waiting=waiting, unfinished=unfinished,
        since_us=since_us(since), sort=sort, limit=limit, shared=shared,
    )  # fmt: skip
    target.reachable()
    found = _facts(target, query, from_log=from_log)
    if json:
        emit_json_list({"journal": target.settings.journal}, "processes", found)
    elif not emit_table(PROCESS_COLUMNS, map(process_row, found), wide=wide):
        journal = target.settings.journal
        say(
            f"the journal {journal} has no processes yet"
            if query.everything
            else f"no process of {journal} is like that"
        )


def _facts(target: CommandTarget, query: ProcessQuery, *, from_log: bool) -> Iterator[dict[str, Any]]:
    from seekpoint.console.render.listing import listed
    from seekpoint.console.render.states import summary_facts
    from seekpoint.consumers.heartbeats.worker_code import worker_code

    code: WorkerCode | None = None
    for summary, state, behind in listed(target, query, from_log=from_log):
        code = code or worker_code(target.log)
        yield summary_facts(summary, state, behind, code.can_run(summary))
