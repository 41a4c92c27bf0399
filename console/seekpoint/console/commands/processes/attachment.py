"""``seekpoint attachment``: write the bytes of an attachment to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from seekpoint.console.render.output import emit_json, pasted, say
from seekpoint.console.services.arguments.options import AsJson, ProcessId
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.content_files import write_content

_STDOUT = Path("-")


def attachment(
    target: CommandTarget,
    process_id: ProcessId,
    digest: Annotated[str, typer.Argument(help="Its SHA-256, or the beginning of it.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="Where to write it; - is stdout.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    json: AsJson = False,
) -> None:
    """Write the bytes of an attachment to a file.

    They are compared with their digest first. \"seekpoint state\" lists the attachments of a process.
    """
    from seekpoint.consumers.blobs.configured_store import blob_store_at
    from seekpoint.consumers.recovery.attachments import read_attachment
    from seekpoint.schemas.errors import UnknownAttachment
    from seekpoint.schemas.values.attachment_ref import Ref

    if json and file == _STDOUT:
        raise typer.BadParameter("stdout has the bytes: leave out --json", param_hint="--json")
    state = target.recoverer.recover(process_id).state
    found = [one for one in state.attachments if one.startswith(digest.lower())]
    if len(found) != 1:
        message = "no attachment of the process begins so" if not found else "several attachments begin so"
        raise UnknownAttachment(
            message,
            process_id=process_id,
            digest=digest,
            hint=f"see its attachments: seekpoint state {pasted(process_id)}",
        )
    [whole] = found
    url, what = target.settings.blob_store, state.attachments[whole]
    blobs = None if url is None else blob_store_at(url)
    data = read_attachment(target.log, state, Ref(whole, what.size, process_id, what.media_type), blobs=blobs)
    if file == _STDOUT:
        sys.stdout.buffer.write(data)
        return
    write_content(file, data, overwrite=overwrite)
    facts = {
        "process_id": process_id,
        "digest": whole,
        "file": str(file),
        "bytes": what.size,
        "media_type": what.media_type,
    }
    if json:
        emit_json(facts)
    else:
        say(f"{what.size:,} bytes, {what.media_type}, in {file}")
