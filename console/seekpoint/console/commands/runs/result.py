"""``seekpoint result``: wait for the result of a process."""

from __future__ import annotations

from typing import Annotated

import typer

from seekpoint.console.render.output import emit_json
from seekpoint.console.services.arguments.options import AsJson, ProcessId
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.client_calls import plain_value, with_client


def result(
    target: CommandTarget,
    process_id: ProcessId,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer; default: no limit.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Wait until the run of a process is over, and print its result as JSON.

    Follows the journal and needs no Redis. Exit code 1: the run failed; 3: it did not end in time; 4: it was cancelled.
    """
    found = plain_value(with_client(target.reachable(), lambda client: client.result(process_id, timeout_s)))
    emit_json({"process_id": process_id, "result": found} if json else found)
