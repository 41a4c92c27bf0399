"""``seekpoint blobs``: show what a blob store has of a process, and erase what nobody needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import emit_json, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, ProcessId
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.process_blobs import BlobFolder
    from seekpoint.schemas.state.process_state import State

_COLUMNS = (Column("folder"), Column("attachments", right=True), Column("of"))
_ERASABLE = ("deleted", "finished")


def blobs(
    target: CommandTarget,
    process_id: ProcessId,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase what is from before a deletion, and all of a finished process.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show what the blob store has of a process, and erase what it does not need any more.

    A deletion erases the bytes of the process. Bytes that a program put there and died, or that the store could not
    erase, are left. Those of a finished process stay until this command erases them.
    """
    from seekpoint.consumers.blobs.configured_store import blob_store_at
    from seekpoint.consumers.blobs.process_blobs import folders_of
    from seekpoint.schemas.errors import InvalidSetting

    state, url = target.recoverer.recover(process_id, missing_ok=True).state, target.settings.blob_store
    if url is None:
        raise InvalidSetting(
            "there is no blob store: attachments are in the journal", setting="blob_store",
            hint="set SEEKPOINT_BLOB_STORE, or blob_store in the settings file, as the nodes have it",
        )  # fmt: skip
    store = blob_store_at(url)
    rows: list[dict[str, Any]] = []
    for folder in folders_of(store, process_id, target.log.topic_id):
        of, count = _of(folder, state), len(store.names(folder.path))
        is_erased = erase and of in _ERASABLE
        if is_erased:
            store.erase(folder.path)
        rows.append({"folder": folder.path, "attachments": count, "of": of, "erased": is_erased})
    if json:
        emit_json({"process_id": process_id, "store": store.name, "folders": rows})
        return
    emit_table(_COLUMNS, [[row["folder"], str(row["attachments"]), row["of"]] for row in rows], wide=True)
    say(_summary(rows, erase))


def _of(folder: BlobFolder, state: State) -> str:
    if folder.deleted_seq is None:
        return "another journal"
    if folder.deleted_seq < state.deleted_seq:
        return "deleted"
    return "finished" if state.finished else "current"


def _summary(rows: list[dict[str, Any]], erase: bool) -> str:
    if erase:
        return f"erased: {sum(row['attachments'] for row in rows if row['erased'])} attachments"
    left = sum(row["attachments"] for row in rows if row["of"] in _ERASABLE)
    return f"not needed by the process: {left} attachments" + ("; --erase erases them" if left else "")
