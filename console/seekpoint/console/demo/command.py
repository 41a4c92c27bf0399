"""``seekpoint demo``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from seekpoint.console.commands import command
from seekpoint.console.output import emit_json
from seekpoint.console.target import home
from seekpoint.schemas.errors import EXIT_FAULT

__all__ = ["register"]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON line to stdout, the story to stderr.")]
Runs = Annotated[
    Path | None,
    typer.Option(
        "--runs", metavar="FILE", help="Real runs (.jsonl, .jsonl.gz; OpenAI chats) instead of made-up cases."
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the cluster running, to look around in the journal.")]
Nodes = Annotated[int, typer.Option("--nodes", min=2, max=16, help="How many nodes.")]
Cases = Annotated[int, typer.Option("--cases", min=4, max=2_000, help="How many made-up cases.")]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    command(app, "demo")(demo)


def demo(json: AsJson = False, runs: Runs = None, keep: Keep = False, nodes: Nodes = 4, cases: Cases = 24) -> int:
    """Watch a fleet of agents survive a kill: start a Kafka, kill a node at work, see it taken over.

    Exits with 0 only if nothing acknowledged was lost, no finished model call was made again, every state equals a full
    refold, and at least one process was taken over.
    """
    from seekpoint.console.demo import Options, Story, run

    story = Story(sys.stderr if json else sys.stdout)
    outcome = run(Options(runs=runs, keep=keep, nodes=nodes, cases=cases, directory=home()), story)
    if json:
        emit_json(outcome.to_dict(), line=True)
    return 0 if outcome.ok else EXIT_FAULT
