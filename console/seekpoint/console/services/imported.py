"""What a command line names as ``module:name``, imported with the working directory first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

__all__ = ["imported"]


def imported(name: str, option: str, form: str = "MODULE:NAME") -> Any:
    """What ``module:name`` stands for. ``BadParameter`` of ``option`` if that is no such name, or cannot be imported.

    Whatever the module raises while it is imported is told, not shown as a traceback; Seekpoint's own errors as theirs.
    """
    from importlib import import_module

    from seekpoint.schemas.errors import SeekpointError

    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise typer.BadParameter(f"{name!r} is not {form}", param_hint=option)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except SeekpointError:
        raise
    except Exception as exc:  # a module is anybody's code
        kind = "" if isinstance(exc, ImportError | AttributeError) else f"{type(exc).__name__}: "
        raise typer.BadParameter(f"{name} cannot be imported: {kind}{exc}", param_hint=option) from exc
    return found
