"""``seekpoint demo``: a fleet of agents, one of them killed, its work taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seekpoint.console.command import AsJson, command
from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import emit_json
from seekpoint.console.services.target import home

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    command(app, "demo")(demo)


def demo(
    json: AsJson = False,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FILE", help="Feed these recorded runs (JSON lines) through it.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running, to look around.")] = False,
) -> int:
    """Kill one of a fleet of agents, watch the others take over. Then Redis loses everything."""
    import sys

    from seekpoint.console.demo import DemoOptions, Story, run

    story = Story(sys.stderr if json else sys.stdout)
    outcome = run(DemoOptions(runs=runs, keep=keep, directory=home()), story)
    if json:
        emit_json(outcome.to_dict(), line=True)
    return 0 if outcome.ok else EXIT_FAULT
