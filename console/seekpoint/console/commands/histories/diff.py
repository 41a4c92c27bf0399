"""``seekpoint diff``: compare two processes, or two moments of one."""

from __future__ import annotations

from typing import Annotated

import typer

from seekpoint.console.render.output import emit_json, say
from seekpoint.console.render.process_diffs import diff_columns, diff_rows, same_line
from seekpoint.console.render.tables import emit_table
from seekpoint.console.services.arguments.completion import complete_moments
from seekpoint.console.services.arguments.options import AsJson, Wide
from seekpoint.console.services.arguments.target import CommandTarget

_Side = Annotated[
    str,
    typer.Argument(
        metavar="PROCESS_ID[@SEQ]",
        help="A process, as of now or after a seq.",
        show_default=False,
        autocompletion=complete_moments,
    ),
]


def diff(target: CommandTarget, left: _Side, right: _Side, wide: Wide = False, json: AsJson = False) -> None:
    """Compare two processes, or two moments of one: context, conversation, calls, lifecycle, cost and duration.

    Exits with 1 if they differ.
    """
    from seekpoint.console.services.histories.process_diff import diff_facts, process_diff

    target.reachable()
    found = process_diff(target, left, right)
    if json:
        emit_json({**diff_facts(found), "is_empty": found.is_empty})
    else:
        emit_table(diff_columns(left, right), [*diff_rows(found)], wide=wide)
        say(same_line(found))
    if not found.is_empty:
        raise typer.Exit(1)
