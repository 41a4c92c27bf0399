"""``seekpoint top``: follow the processes and the pipeline in a terminal."""

from __future__ import annotations

from seekpoint.console.render.output import emit_json
from seekpoint.console.services.arguments.options import AsJson
from seekpoint.console.services.arguments.target import CommandTarget


def top(target: CommandTarget, json: AsJson = False) -> None:
    """Follow the journal's processes and its pipeline in this terminal. It changes nothing.

    With --json it prints the pipeline, and how many processes each agent has, once.
    """
    import sys

    from seekpoint.schemas.config.extras import require_extra
    from seekpoint.schemas.errors import Refused

    target.reachable()
    if json:
        emit_json(_facts(target))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("seekpoint top needs a terminal", hint="seekpoint top --json, seekpoint ps or seekpoint lag")
    require_extra("console", "seekpoint top", "textual")
    from seekpoint.console.top.top_app import TopApp

    TopApp(target).run()


def _facts(target: CommandTarget) -> dict[str, object]:
    from msgspec import to_builtins

    from seekpoint.console.render.listing import listed
    from seekpoint.console.services.arguments.process_query import ProcessQuery
    from seekpoint.console.services.facts.pipeline_facts import PipelineReader
    from seekpoint.console.web.data.board import Board

    board = Board(target.settings.journal)
    board.update({one.summary.process_id: one.summary for one in listed(target, ProcessQuery())})
    return {"counts": to_builtins(board.counts()), "pipeline": to_builtins(PipelineReader(target).read())}
