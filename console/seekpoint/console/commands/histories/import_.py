"""``seekpoint import``: append an exported process to a journal, or what another system has stored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seekpoint.console.render.output import counted, emit_json, say
from seekpoint.console.services.arguments.options import AsJson
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import with_node

_PANEL = "Of another system"


def import_(
    target: CommandTarget,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The exported process; with --from a file, a folder or a connection string.",
            show_default=False,
        ),
    ],
    as_id: Annotated[str | None, typer.Option("--as", metavar="NEW_ID", help="Import it under another id.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="KIND",
            help="The system: activegraph, langgraph-postgres, langgraph-sqlite or promptise.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", "--thread", metavar="ID", help="Only this one; may be repeated.", rich_help_panel=_PANEL),
    ] = None,
    id_prefix: Annotated[
        str, typer.Option("--id-prefix", metavar="TEXT", help="Only ids that begin so.", rich_help_panel=_PANEL)
    ] = "",
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            metavar="NAME",
            help="The first part of the processes' ids. Default: that of the adapter.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count, write nothing.", rich_help_panel=_PANEL)
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare/--no-compare", help="Read everything back and compare it.", rich_help_panel=_PANEL),
    ] = True,
    json: AsJson = False,
) -> int | None:
    """Append an exported process to the journal, or what another system has stored.

    An exported process keeps its id or takes another one, which must not be used in the journal. With --from,
    everything that was written is read back and compared. Repeat an import that was interrupted: it goes on where it
    was.
    """
    if kind is not None:
        if as_id is not None:
            raise typer.BadParameter(
                "an exported process takes another id; with --from use --prefix", param_hint="--as"
            )
        from seekpoint.console.services.histories.source_imports import SourceImport

        return SourceImport(
            target, kind, source, ids=ids or (), id_prefix=id_prefix, prefix=prefix, dry_run=dry_run, compare=compare
        ).run(json=json)
    if ids or id_prefix or prefix or dry_run or not compare:
        raise typer.BadParameter("the other options are for another system's store: give its kind", param_hint="--from")
    _import_file(target, Path(source), as_id, json=json)
    return None


def _import_file(target: CommandTarget, file: Path, as_id: str | None, *, json: bool) -> None:
    from seekpoint.consumers.staging.capture.process_file import ProcessFile
    from seekpoint.producers.importing import import_process

    settings, entries = target.reachable(may_create=True), ProcessFile(file).entries
    found = with_node(settings, lambda node: import_process(node, entries, as_id))
    if json:
        emit_json({"process_id": found.process_id, "entries": found.entries, "known": found.known})
    else:
        before = f", {counted(found.known, 'entry')} existed already" if found.known else ""
        say(f"{found.process_id}: {counted(found.entries, 'entry')} appended{before}")
