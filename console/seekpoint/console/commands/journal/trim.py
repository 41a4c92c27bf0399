"""``seekpoint trim``: delete entries that verified checkpoints replace. Nothing is trimmed automatically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import counted, emit_json, fail, say
from seekpoint.console.render.progress import ReadingProgress, watched
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.checkpoints.trimming import Trimmed

from seekpoint.console.services.arguments.options import AsJson, Wide

__all__ = []

_COLUMNS = (
    Column("partition", right=True),
    *(Column(title, right=True, wide=True) for title in ("log start", "floor", "new start")),
    Column("offsets", right=True),
    Column("checkpoints", right=True),
    Column("recomputed", right=True),
    Column("note", wraps=True),
)


def trim(
    target: CommandTarget,
    to_floor: Annotated[
        bool, typer.Option("--to-floor", help="Delete entries below each partition's floor, permanently.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything; delete nothing.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> int:
    """Delete entries that verified checkpoints replace. Exits with 1 if a checkpoint is wrong or incomplete."""
    from seekpoint.consumers.checkpoints.trimming import Trim
    from seekpoint.schemas.errors import JournalMismatch

    if not to_floor:
        raise typer.BadParameter("give the limit: --to-floor", param_hint="--to-floor")
    partitions = range(target.log.partitions)
    found: list[Trimmed] = []
    refused: list[dict[str, Any]] = []
    marks = [target.log.watermarks(partition) for partition in partitions]
    with ReadingProgress("checking", sum(mark.high - mark.low for mark in marks)) as progress:
        trimmer = Trim(watched(target.log, progress.advance), target.checkpoints, target.log)
        for partition in partitions:
            try:
                found.append(trimmer.plan(partition) if dry_run else trimmer.run(partition))
            except JournalMismatch as error:
                refused.append({"partition": partition, "error": error.message, "facts": error.facts})
                fail(f"partition {partition} is not trimmed: {error}")
    if json:
        done = {"partitions": [_facts(one) for one in found], "refused": refused}
        emit_json({"journal": target.settings.journal, "dry_run": dry_run, **done})
    else:
        _show(found, dry_run, wide=wide)
    return EXIT_FAULT if refused else 0


def _facts(one: Trimmed) -> dict[str, Any]:
    names = ("partition", "low", "floor", "target", "offsets", "checkpoints", "recomputed", "unproven")
    return {**{name: getattr(one, name) for name in names}, "note": one.note or None}


def _show(found: list[Trimmed], dry_run: bool, *, wide: bool) -> None:
    if found:
        emit_table(
            _COLUMNS,
            [
                [
                    *(one.partition, one.low, "-" if one.floor is None else one.floor, one.target, one.offsets),
                    *(one.checkpoints, one.recomputed, _note(one)),
                ]
                for one in found
            ],
            wide=wide,
        )
    offsets = counted(sum(one.offsets for one in found), "offset")
    say(f"{offsets} would be deleted; nothing was" if dry_run else f"{offsets} deleted")


def _note(one: Trimmed) -> str:
    unproven = counted(one.unproven, "checkpoint")
    notes = [one.note, f"{unproven} could not be recomputed: nothing older is left" if one.unproven else ""]
    return "; ".join(note for note in notes if note) or "-"
