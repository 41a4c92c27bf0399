"""How a function becomes a command: the options all commands share, and one way out for every error."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast, get_type_hints

import typer

from seekpoint.console.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED
from seekpoint.console.render.command_errors import report, set_debug
from seekpoint.console.services.target import CommandTarget

__all__ = ["AsJson", "Usage", "command", "group"]

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

Usage: type[Exception] = cast("type[Exception]", typer.BadParameter.__base__)
"""The base of what a wrong command line raises; Typer does not export it."""

Body = Callable[..., int | None]

_PANEL = "Settings"
_DEBUG = Annotated[bool, typer.Option("--debug", help="Show tracebacks and the clients' own messages.")]
_TARGET = {
    "journal": Annotated[
        str | None, typer.Option("--journal", metavar="NAME", help="The journal's name.", rich_help_panel=_PANEL)
    ],
    "bootstrap_servers": Annotated[
        str | None,
        typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="Where Kafka is.", rich_help_panel=_PANEL),
    ],
    "config": Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Instead of ./seekpoint.toml.", rich_help_panel=_PANEL),
    ],
}


def command(app: typer.Typer, name: str, **how: Any) -> Callable[[Body], Body]:
    """Register a function as a command. One with a first parameter ``target`` also gets the settings' options.

    It returns its exit code (None is 0). Its errors become one line and an exit code.
    """

    def register(body: Body) -> Body:
        app.command(name, **how)(_runner(body))
        return body

    return register


def group(app: typer.Typer, name: str, about: str) -> typer.Typer:
    """A noun with commands of its own: ``seekpoint topics ...``."""
    inner = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=app.rich_markup_mode)
    app.add_typer(inner, name=name)
    return inner


def _runner(body: Body) -> Callable[..., None]:
    hints = get_type_hints(body, include_extras=True)
    own = [each.replace(annotation=hints[each.name]) for each in inspect.signature(body).parameters.values()]
    on_journal = bool(own) and own[0].name == "target"
    shared = {**(_TARGET if on_journal else {}), "debug": _DEBUG}

    @functools.wraps(body)
    def run(**given: Any) -> None:
        set_debug(given.pop("debug"))
        target = CommandTarget(**{name: given.pop(name) for name in _TARGET}) if on_journal else None
        code = _outcome(body, target, given)
        if code:
            raise typer.Exit(code)

    wanted = own[1:] if on_journal else own
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in wanted]
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
    """Raise ``InvalidName`` for a process id that cannot be one, or that looks like another one."""
    if named := [*(given.get("process_ids") or ()), *filter(None, [given.get("process_id")])]:
        from seekpoint.schemas.values.process_ids import named_process_key

        for process_id in named:
            named_process_key(process_id)


def _outcome(body: Body, target: CommandTarget | None, given: dict[str, Any]) -> int:
    from seekpoint.console.render.logs import show_logs

    show_logs()
    try:
        _check_process_ids(given)
        return (body(**given) if target is None else body(target, **given)) or 0
    except (typer.Exit, typer.Abort, Usage):
        raise
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except Exception as error:  # the last line of defence: whatever it is, the user gets one line
        return report(error, str if target is None else target.scrub)
    finally:
        if target is not None:
            target.close()
