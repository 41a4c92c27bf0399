"""Turn functions into commands: add the options that all commands share, and turn errors into exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import typer

from seekpoint.console.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED
from seekpoint.console.render.command_errors import report, set_debug
from seekpoint.console.services.arguments.target import CommandTarget

UsageError: type[Exception] = cast("type[Exception]", typer.BadParameter.__base__)
"""The base class of usage errors; Typer does not export it."""

CommandBody = Callable[..., int | None]

_PANEL = "Settings"
_DEBUG = Annotated[bool, typer.Option("--debug", help="Show tracebacks and the Kafka client's messages.")]
_TARGET = {
    "journal": Annotated[
        str | None, typer.Option("--journal", metavar="NAME", help="The journal's name.", rich_help_panel=_PANEL)
    ],
    "bootstrap_servers": Annotated[
        str | None,
        typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="The address of Kafka.", rich_help_panel=_PANEL),
    ],
    "journal_url": Annotated[
        str | None,
        typer.Option(
            "--journal-url", metavar="sqlite:///FILE", help="The file of an embedded log.", rich_help_panel=_PANEL
        ),
    ],
    "config": Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The settings file, instead of ./seekpoint.toml.", rich_help_panel=_PANEL
        ),
    ],
}


def add_command(app: typer.Typer, name: str, body: CommandBody, section: str | None = None) -> None:
    """Add a function as a command. If its first parameter is ``target``, the command also gets the settings' options.

    The function returns its exit code; None is 0. An error becomes one line and an exit code.
    """
    app.command(name, rich_help_panel=section)(_with_shared_options(body))


def add_group(
    app: typer.Typer, name: str, help_text: str | None, section: str | None = None, body: CommandBody | None = None
) -> typer.Typer:
    """Add a group of commands, such as ``seekpoint topics ...``, and return it.

    With a ``body`` the name alone is a command too.
    """
    inner = typer.Typer(help=help_text, no_args_is_help=body is None, rich_markup_mode=app.rich_markup_mode)
    if body is not None:
        inner.callback(invoke_without_command=True)(_unless_subcommand(_with_shared_options(body)))
    app.add_typer(inner, name=name, rich_help_panel=section)
    return inner


def _unless_subcommand(run: Callable[..., None]) -> Callable[..., None]:
    """Return ``run`` as the callback of a group: it does nothing if a command of the group was called."""

    def start(ctx: typer.Context, **given: Any) -> None:
        if ctx.invoked_subcommand is None:
            run(**given)

    own = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    signature = inspect.signature(run)
    start.__signature__ = signature.replace(  # type: ignore[attr-defined]  # Typer reads it
        parameters=[own, *signature.parameters.values()]
    )
    start.__annotations__ = {"ctx": typer.Context, **run.__annotations__}
    return start


def _with_shared_options(body: CommandBody) -> Callable[..., None]:
    hints = get_type_hints(body, include_extras=True)
    own = [each.replace(annotation=hints[each.name]) for each in inspect.signature(body).parameters.values()]
    has_target = bool(own) and own[0].name == "target"
    shared = {**(_TARGET if has_target else {}), "debug": _DEBUG}

    @functools.wraps(body)
    def run(**given: Any) -> None:
        set_debug(given.pop("debug"))
        target = CommandTarget(**{name: given.pop(name) for name in _TARGET}) if has_target else None
        code = _run_body(body, target, given)
        if code:
            raise typer.Exit(code)

    kept = own[1:] if has_target else own
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in kept]
    parameters += [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "debug" else None, annotation=kind
        )
        for name, kind in shared.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _check_process_ids(given: Mapping[str, Any]) -> None:
    """Raise ``InvalidName`` for a process id that is not allowed, or that looks like another one."""
    if process_ids := [*(given.get("process_ids") or ()), *filter(None, [given.get("process_id")])]:
        from seekpoint.schemas.values.process_ids import named_process_key

        for process_id in process_ids:
            named_process_key(process_id)


def _run_body(body: CommandBody, target: CommandTarget | None, given: dict[str, Any]) -> int:
    from seekpoint.console.render.logs import show_logs

    show_logs()
    try:
        _check_process_ids(given)
        return (body(**given) if target is None else body(target, **given)) or 0
    except (typer.Exit, typer.Abort, UsageError):
        raise
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except Exception as error:  # the user gets one line, whatever the error is
        if target is not None:
            from seekpoint.console.render.similar_names import suggest_name

            suggest_name(target, error)
        return report(error, str if target is None else target.scrub)
    finally:
        if target is not None:
            target.close()
