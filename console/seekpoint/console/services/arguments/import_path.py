"""Import objects that the command line names as ``module:name``. The working directory comes first on the path."""

from __future__ import annotations

import sys
from os import sep
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Agent


def import_object(name: str, option: str, form: str = "MODULE:NAME") -> Any:
    """Return the object that ``module:name`` names. Raises ``BadParameter`` if the import fails.

    Any exception of the module becomes a ``BadParameter``, except Seekpoint's own errors.
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise typer.BadParameter(f"{name!r} is not {form}{_example(name)}", param_hint=option)
    found: Any = import_module_here(module, option, name)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError as exc:
        from seekpoint.schemas.values.near_names import did_you_mean

        near = did_you_mean(part, dir(found), str(exc))
        raise typer.BadParameter(f"{name} cannot be imported: {near}", param_hint=option) from exc
    return found


def import_module_here(module: str, option: str, name: str = "") -> Any:
    """Return a module, also one of the working directory. Raises as ``import_object`` does."""
    from importlib import import_module

    from seekpoint.schemas.errors import SeekpointError

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module)
    except SeekpointError:
        raise
    except Exception as exc:  # a module is anybody's code
        raise typer.BadParameter(
            f"{name or module} cannot be imported: {_reason(exc, module)}", param_hint=option
        ) from exc


def _example(name: str) -> str:
    """Return what ``name`` may have meant, a file or a function of the same name, as part of a message."""
    module = name.strip(":").removesuffix(".py").replace("/", ".")
    return f", such as {module}:{module.rpartition('.')[2]}" if module.replace(".", "_").isidentifier() else ""


def _reason(error: Exception, module: str) -> str:
    """Return why the import of ``module`` failed: where it was looked for, or at which line it failed."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None and f"{module}.".startswith(f"{error.name}."):
        if module.endswith(".py"):
            return f"it is a module, not a file; write {module.removesuffix('.py').replace('/', '.')}"
        return f"there is no module {error.name} in {Path.cwd()} or on Python's path"
    kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
    return f"{kind}{error}{_line_of(error)}"


def _line_of(error: Exception) -> str:
    """Return the line of the user's code at which an import failed, as part of a message."""
    from traceback import walk_tb

    if isinstance(error, SyntaxError):  # its text says where
        return ""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [one for one in frames[1:] if not one[0].startswith("<frozen") and f"{sep}importlib{sep}" not in one[0]]
    return f" (in {own[-1][0]}:{own[-1][1]})" if own else ""


def load_agent(name: str) -> Agent:
    """Return the agent that ``module:function`` names. Raises ``BadParameter`` if it is not an agent."""
    from seekpoint.producers import Agent

    found = import_object(name, "--agent", "MODULE:FUNCTION")
    if not isinstance(found, Agent):
        advice = "put @agent(NAME) above it" if callable(found) else "name a function with @agent(NAME) above it"
        kind = type(found).__name__
        raise typer.BadParameter(f"{name} is no agent but of type {kind}: {advice}", param_hint="--agent")
    return found
