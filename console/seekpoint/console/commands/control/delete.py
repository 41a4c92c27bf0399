"""``seekpoint delete``: drop all that a process holds."""

from __future__ import annotations

from typing import Annotated

import typer

from seekpoint.console.render.output import clean, emit_json, say
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.answer_commands import unfinished_state
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node


def delete(
    target: CommandTarget,
    process_id: ProcessId,
    expected_seq: Annotated[
        int | None, typer.Option("--expected-seq", metavar="SEQ", min=1, help="Only if its newest entry has this seq.")
    ] = None,
    reason: Reason = None,
    by: ActorName = None,
    json: AsJson = False,
) -> None:
    """Drop all that a process holds. The next write to its id begins a new process.

    Only a process that holds content alone is deleted: none of an agent, and none that made calls. The log keeps its
    entries until ``seekpoint trim``.
    """
    actor = by or user_name("--actor")
    unfinished_state(target, process_id)  # raises UnknownProcess
    deleted = with_node(
        target.reachable(),
        lambda node: node.delete(process_id, expected_seq=expected_seq, reason=reason, actor=actor),
    )
    seq = None if deleted is None else deleted.seq
    if json:
        emit_json({"process_id": process_id, "deleted": True, "seq": seq, "reason": reason, "actor": actor})
    else:
        say(clean(f"{process_id}: deleted, as {actor}; the log keeps its entries until seekpoint trim --to-floor"))
