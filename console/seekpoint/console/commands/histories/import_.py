"""``seekpoint import``: append an exported process to a journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import counted, emit_json, say
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import with_node

if TYPE_CHECKING:
    pass
from seekpoint.console.services.arguments.options import AsJson

__all__ = ["import_"]


def import_(
    target: CommandTarget,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The exported process.", show_default=False)],
    as_id: Annotated[str | None, typer.Option("--as", metavar="NEW_ID", help="Import it under another id.")] = None,
    json: AsJson = False,
) -> None:
    """Append an exported process to the journal.

    It keeps its id or takes another one. The id must not be used in the journal.
    """
    from seekpoint.consumers.staging.capture.process_file import ProcessFile
    from seekpoint.producers.importing import import_process

    settings, entries = target.reachable(may_create=True), ProcessFile(file).entries
    found = with_node(settings, lambda node: import_process(node, entries, as_id))
    if json:
        emit_json({"process_id": found.process_id, "entries": found.entries, "known": found.known})
    else:
        before = f", {counted(found.known, 'entry')} existed already" if found.known else ""
        say(f"{found.process_id}: {counted(found.entries, 'entry')} appended{before}")
