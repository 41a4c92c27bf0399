"""The command line as a whole: ``app`` with every command, and ``main`` around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from seekpoint.console.command import Usage
from seekpoint.console.commands import budget as budgets
from seekpoint.console.commands import (
    checkpoints,
    doctor,
    effects,
    gates,
    lag,
    replay,
    schema,
    serve,
    shared,
    topics,
    trim,
)
from seekpoint.console.commands import demo as rehearsal
from seekpoint.console.commands import dlq as letters
from seekpoint.console.commands import export as portable
from seekpoint.console.commands import log as history
from seekpoint.console.commands import ps as processes
from seekpoint.console.commands import recover as recoveries
from seekpoint.console.commands import run as agents
from seekpoint.console.commands import steps as calls
from seekpoint.console.commands import up as cluster
from seekpoint.console.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_USAGE
from seekpoint.console.render.command_errors import report, set_debug
from seekpoint.console.render.output import emit, fail

__all__ = ["app", "main"]

app = typer.Typer(
    name="seekpoint",
    help="A durable journal for AI-agent processes, in your own Kafka.",
    epilog="Exit codes: 0 ok, 1 a fault was found, 2 usage, 3 not reachable, 4 refused.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,  # loading Rich takes 60 ms, for nothing in a pipe
)
for _commands in (
    *(cluster, topics, processes, history, recoveries, checkpoints, lag, trim, replay, effects, gates, shared),
    *(agents, calls, budgets, portable),
    *(letters, serve, schema, doctor, rehearsal),
):
    _commands.register(app)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        emit(f"seekpoint {version('seekpoint')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments`` (else that of this process); its exit code. Never raises."""
    set_debug(False)
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):  # a pipe there has a code page that cannot carry most names
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = _run(list(sys.argv[1:] if arguments is None else arguments))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would be tried again, and complained about, at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return code


def _run(arguments: list[str]) -> int:
    try:
        return app(arguments, prog_name="seekpoint", standalone_mode=False) or 0
    except Usage as error:
        return _misused(error)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else EXIT_USAGE
    except Exception as error:  # the last line of defence: whatever it is, the user gets one line
        return report(error)


def _misused(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(getattr(error, "message", "") or (context.get_help() if context else ""), err=True)
        return EXIT_USAGE
    path = context.command_path if context else "seekpoint"
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    end = "" if text.endswith("?") else ";"
    fail(f"{text.rstrip('.')}{end} see {path} --help")
    return EXIT_USAGE
