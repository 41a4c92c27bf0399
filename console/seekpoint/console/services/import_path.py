"""Import objects that the command line names as ``module:name``. The working directory comes first on the path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Agent

__all__ = ["import_module_here", "import_object", "load_agent"]


def import_object(name: str, option: str, form: str = "MODULE:NAME") -> Any:
    """Return the object that ``module:name`` names. Raises ``BadParameter`` if the import fails.

    Any exception of the module becomes a ``BadParameter``, except Seekpoint's own errors.
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise typer.BadParameter(f"{name!r} is not {form}", param_hint=option)
    found: Any = import_module_here(module, option, name)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError as exc:
        raise typer.BadParameter(f"{name} cannot be imported: {exc}", param_hint=option) from exc
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
        kind = "" if isinstance(exc, ImportError | AttributeError) else f"{type(exc).__name__}: "
        raise typer.BadParameter(f"{name or module} cannot be imported: {kind}{exc}", param_hint=option) from exc


def load_agent(name: str) -> Agent:
    """Return the agent that ``module:function`` names. Raises ``BadParameter`` if it is not an agent."""
    from seekpoint.producers import Agent

    found = import_object(name, "--agent", "MODULE:FUNCTION")
    if not isinstance(found, Agent):
        kind = type(found).__name__
        raise typer.BadParameter(f"{name} is a {kind}, not an agent: put @agent(NAME) above it", param_hint="--agent")
    return found
