"""The kinds of sources by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from seekpoint.adapters.migration.import_runner import ImportSource
from seekpoint.errors import InvalidSetting, Refused

_LANGGRAPH = "seekpoint.adapters.migration.langgraph_source"
_OPENERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "activegraph": ("seekpoint.adapters.migration.activegraph_source", "activegraph", "activegraph"),
    "langgraph-postgres": (_LANGGRAPH, "langgraph_postgres", "langgraph-postgres"),
    "langgraph-sqlite": (_LANGGRAPH, "langgraph_sqlite", "langgraph"),
    "promptise": ("seekpoint.adapters.migration.promptise_source", "promptise", "promptise"),
}
"""Module, function and extra of each."""

SOURCE_KINDS: Final = tuple(_OPENERS)


def open_source(kind: str, place: str) -> ImportSource:
    """Return a source: ``place`` is a file, a folder or a connection string, as its kind says.

    Raises ``InvalidSetting`` if a package is missing, ``Refused`` if there is no such source.
    """
    if kind not in _OPENERS:
        raise Refused("there is no such kind of source", asked=kind[:60], hint=f"use {', '.join(SOURCE_KINDS)}")
    module, name, extra = _OPENERS[kind]
    try:
        opener: Callable[[str], ImportSource] = getattr(import_module(module), name)
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("seekpoint"):
            raise
        raise InvalidSetting(
            f"an import from {kind} needs packages that are not installed", found=exc.name,
            hint=f'pip install "seekpoint[{extra}]"',
        ) from exc  # fmt: skip
    return opener(place)
