"""``seekpoint upgrade``: raise the format of a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import emit, emit_json
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    pass
from seekpoint.console.services.arguments.options import AsJson

__all__ = ["upgrade"]


def upgrade(
    target: CommandTarget,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; do nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Raise the journal's format to the newest. So far there is one format."""
    from seekpoint.schemas.log.manifest import FORMAT

    manifest = target.log.connect()  # raises NewerFormat if this code does not know the format
    if json:
        facts = {"journal": manifest.journal, "format": manifest.format, "newest": FORMAT}
        emit_json({**facts, "raised": False, "dry_run": dry_run})
    else:
        emit(f"journal {manifest.journal}: format {manifest.format} is current, nothing to do")
