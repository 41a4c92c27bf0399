"""``seekpoint upgrade``: raise the format of a journal."""

from __future__ import annotations

from typing import Annotated

import typer

from seekpoint.console.render.output import emit, emit_json
from seekpoint.console.services.arguments.options import AsJson
from seekpoint.console.services.arguments.target import CommandTarget


def upgrade(
    target: CommandTarget,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; do nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Raise the journal's format to that of this version, which then writes into it. Stop older programs before."""
    from seekpoint.schemas.log.manifest import FORMAT

    manifest = target.log.connect()  # raises NewerFormat if this code does not know the format
    is_older = manifest.format < FORMAT
    if is_older and not dry_run:
        _raise_format(target)
    if json:
        facts = {"journal": manifest.journal, "format": manifest.format, "newest": FORMAT}
        emit_json({**facts, "raised": is_older and not dry_run, "dry_run": dry_run})
    elif not is_older:
        emit(f"journal {manifest.journal}: format {manifest.format} is current, nothing to do")
    else:
        verb = "would be raised" if dry_run else "raised"
        emit(f"journal {manifest.journal}: {verb} from format {manifest.format} to {FORMAT}")
        emit("programs of older versions can no longer read it: start them with this version")


def _raise_format(target: CommandTarget) -> None:
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog

    if isinstance(target.log, SqliteLog):
        target.log.file.raise_format()
    else:
        from seekpoint.compose import raise_format_sync

        raise_format_sync(target.settings)
