"""The command line: ``app`` with every command, and ``main``, which runs it."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, TextIO

import typer

from seekpoint import __version__
from seekpoint.console.command import CommandBody, UsageError, add_command, add_group
from seekpoint.console.commands.cluster import demo, down, status, up
from seekpoint.console.commands.control import (
    budget,
    cancel,
    delete,
    effects,
    gates,
    redrive,
    signal,
    suspend,
)
from seekpoint.console.commands.histories import (
    diff,
    export,
    fork,
    import_,
    lineage,
    promote,
    replay_check,
    rewind,
    trace,
    verify,
)
from seekpoint.console.commands.journal import (
    checkpoints,
    console,
    copy,
    dlq,
    doctor,
    lag,
    mcp,
    replay,
    schema,
    serve,
    top,
    topics,
    trim,
    upgrade,
)
from seekpoint.console.commands.processes import attachment, blobs, costs, log, ps, recover, shared, state, steps
from seekpoint.console.commands.runs import rerun, result, resume, run, schedules, submit, worker, workers
from seekpoint.console.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_USAGE
from seekpoint.console.help_sections import SectionedGroup, section_of
from seekpoint.console.render.command_errors import report, set_debug
from seekpoint.console.render.output import emit, fail, set_json

app = typer.Typer(
    name="seekpoint",
    cls=SectionedGroup,
    help="A durable journal for AI-agent processes, in one file or in your own Kafka.",
    epilog="Exit codes: 0 ok, 1 a fault was found, 2 usage, 3 not reachable, 4 refused.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich"
    if sys.stdout and sys.stdout.isatty()
    else None,  # a pipe does not need Rich, which takes 60 ms to load
)
_Group = tuple[str, dict[str, CommandBody]]

_COMMANDS: dict[str, CommandBody | _Group] = {
    "up": up.up,
    "down": down.down,
    "status": status.status,
    "topics": (
        "Create and audit a journal's topics.",
        {"create": topics.create, "check": topics.check, "manifest": topics.manifest, "restore": topics.restore},
    ),
    "upgrade": upgrade.upgrade,
    "top": top.top,
    "mcp": mcp.mcp,
    "ps": ps.ps,
    "state": state.state,
    "verify": verify.verify,
    "log": log.log,
    "recover": recover.recover,
    "checkpoints": (
        "Show checkpoints: the snapshots of processes in NAME.checkpoints.",
        {"ls": checkpoints.ls, "show": checkpoints.show},
    ),
    "lag": lag.lag,
    "trim": trim.trim,
    "replay": replay.replay,
    "copy": copy.copy,
    "effects": (
        "Show external effects, and say what became of them.",
        {"ls": effects.ls, "show": effects.show, "resolve": effects.resolve, "revoke": effects.revoke},
    ),
    "gates": ("Show the gates that processes wait for.", {"ls": gates.ls}),
    "signal": signal.signal,
    "approve": gates.approve,
    "deny": gates.deny,
    "cancel": cancel.cancel,
    "delete": delete.delete,
    "shared": (
        "Read and set values that the processes of a journal share.",
        {"get": shared.get, "set": shared.set_, "ls": shared.ls},
    ),
    "schedules": (
        "Show the schedules of agents, pause them, resume them, and trigger runs.",
        {"ls": schedules.ls, "pause": schedules.pause, "resume": schedules.resume, "trigger": schedules.trigger},
    ),
    "suspend": suspend.suspend,
    "resume": resume.resume,
    "submit": submit.submit,
    "result": result.result,
    "redrive": redrive.redrive,
    "rewind": rewind.rewind,
    "fork": fork.fork,
    "lineage": lineage.lineage,
    "diff": diff.diff,
    "promote": promote.promote,
    "rerun": rerun.rerun,
    "worker": worker.worker,
    "workers": workers.workers,
    "run": run.run,
    "replay-check": replay_check.replay_check,
    "steps": steps.steps,
    "trace": trace.trace,
    "costs": costs.costs,
    "budget": ("Show and raise the budgets of processes.", {"show": budget.show, "raise": budget.raise_}),
    "export": export.export,
    "attachment": attachment.attachment,
    "blobs": blobs.blobs,
    "import": import_.import_,
    "dlq": ("Show dead letters.", {"ls": dlq.ls, "show": dlq.show}),
    "serve": (
        "Run a service of the journal. Start more of them to scale.",
        {
            "projector": serve.projector,
            "recovery": serve.recovery,
            "dispatcher": serve.dispatcher,
            "reactors": serve.reactors,
        },
    ),
    "schema": ("Check the schemas of entries.", {"check": schema.check}),
    "doctor": doctor.doctor,
    "demo": demo.demo,
}

for _name, _entry in _COMMANDS.items():
    if isinstance(_entry, tuple):
        _app = add_group(app, _name, _entry[0], section_of(_name))
        for _subname, _body in _entry[1].items():
            add_command(_app, _subname, _body)
    else:
        add_command(app, _name, _entry, section_of(_name))

_console = add_group(
    app, "console", "Serve web pages that show the journal's processes.", section_of("console"), console.console
)
_tokens = add_group(_console, "token", "Make and remove the tokens with which people and programs use the console.")
add_command(_tokens, "add", console.add_token)
add_command(_tokens, "ls", console.list_tokens)
add_command(_tokens, "remove", console.remove_token)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        emit(f"seekpoint {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments``, by default those of this program. Return the exit code; never raise."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    set_debug(False)
    set_json("--json" in arguments)
    try:
        return _main(arguments)
    finally:
        set_json(False)  # a program that calls this may go on with messages for people


def _main(arguments: list[str]) -> int:
    if not _has_output():
        return EXIT_BROKEN_PIPE
    codecs.register_error("seekpoint.json", _json_escapes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a program that calls main() may have replaced it
            # The code page of a pipe on Windows, or a locale of one byte, cannot encode most names.
            stream.reconfigure(encoding="utf-8" if sys.platform == "win32" else None, errors="seekpoint.json")
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        # At exit the interpreter would flush the rest of the buffer again, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE if isinstance(error, BrokenPipeError) else code or report(error)
    return code


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    """Write what a stream cannot encode as JSON escapes it: a document stays the same document."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _has_output() -> bool:
    """Return whether stdout is open, and report it if not. A closed stream (``>&-``) is None and becomes ``/dev/null``.

    Otherwise the next file or socket would get the stream's descriptor, and messages would be written into it.
    """
    is_open = sys.stdout is not None
    sys.stdout = sys.stdout or _null_stream()
    sys.stderr = sys.stderr or _null_stream()
    if not is_open:
        fail("standard output is closed", code="CannotWrite")
    return is_open


def _null_stream() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _run(arguments: list[str]) -> int:
    try:
        return app(arguments, prog_name="seekpoint", standalone_mode=False) or 0
    except UsageError as error:
        return _report_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else EXIT_USAGE
    except Exception as error:  # the user gets one line, whatever the error is
        return report(error)


def _report_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(getattr(error, "message", "") or (context.get_help() if context else ""), err=True)
        return EXIT_USAGE
    path = context.command_path if context else "seekpoint"
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    end = "" if text.endswith("?") else ";"
    advice = _order_of(text, path) or f"see {path} --help"
    fail(f"{text.rstrip('.')}{end} {advice}", code="Usage", about={"message": text, "advice": advice})
    return EXIT_USAGE


def _order_of(text: str, path: str) -> str | None:
    """Return advice for an option that was given in front of its command."""
    option = text.removeprefix("No such option: ").split(" ")[0].rstrip(".")
    if path != "seekpoint" or option not in _SHARED:
        return None
    return f"options follow the command: seekpoint COMMAND {option} ..."


_SHARED = ("--journal", "--journal-url", "--bootstrap-servers", "--config", "--json", "--debug")
"""Options that every command has, or nearly every one."""
