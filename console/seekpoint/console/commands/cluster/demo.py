"""``seekpoint demo``: run a fleet of workers, kill one of them, and watch the others take over its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import emit_json
from seekpoint.console.services.arguments.options import (
    AsJson,
)
from seekpoint.console.services.arguments.target import home

__all__ = []


def demo(
    json: AsJson = False,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FILE", help="Use these recorded runs (JSON lines).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running, for inspection.")] = False,
) -> int:
    """Kill one of a fleet of workers and watch the others take over. Then delete everything in Redis."""
    import sys

    from seekpoint.compose.runtime import require_packages

    require_packages()  # before the modules that need the Kafka client, and before the story begins
    from seekpoint.console.demo.conductor import DemoOptions, run
    from seekpoint.console.demo.demo_story import DemoStory

    story = DemoStory(sys.stderr if json else sys.stdout)
    outcome = run(DemoOptions(runs=runs, keep=keep, directory=home()), story)
    if json:
        emit_json(outcome.to_dict(), line=True)
    return 0 if outcome.ok else EXIT_FAULT
