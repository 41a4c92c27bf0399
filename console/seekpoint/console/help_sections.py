"""Group the commands in ``seekpoint --help`` by what people want to do."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

SECTIONS = {
    "Run agents": "run worker workers submit result schedules",
    "Look at processes": "console mcp top ps state log steps trace costs lineage diff",
    "Answer and stop": "gates approve deny signal suspend resume cancel delete redrive budget shared effects",
    "Go back and try again": "rewind fork promote rerun replay-check",
    "Move data": "export import attachment blobs replay copy",
    "Recover and repair": "doctor verify recover checkpoints lag trim dlq",
    "Journal and services": "topics schema upgrade serve",
    "Local cluster": "up down status demo",
}
"""The commands of each section, in the order in which the help shows them."""

_HELP_MAX = 1000
"""More than any first sentence has, so that the help wraps it and cuts nothing."""


def section_of(name: str) -> str:
    """Return the section of a command.

    >>> section_of("ps")
    'Look at processes'
    """
    return next(title for title, names in SECTIONS.items() if name in names.split())


class SectionedGroup(TyperGroup):
    """Shows its commands in sections. On a terminal Rich does that; here for pipes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the sections."""
        return [name for names in SECTIONS.values() for name in names.split()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a table for each section; a long line is wrapped."""
        for title, names in SECTIONS.items():
            commands = [(name, self.commands[name]) for name in names.split()]
            with formatter.section(title):
                formatter.write_dl([(name, one.get_short_help_str(_HELP_MAX)) for name, one in commands])
