"""``seekpoint resume``: end the hold of a process."""

from __future__ import annotations

from seekpoint.console.render.output import clean, emit_json, say
from seekpoint.console.services.answer_commands import unfinished_state
from seekpoint.console.services.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.send_and_confirm import send_and_confirm, user_name
from seekpoint.console.services.target import CommandTarget

__all__ = ["resume"]


def resume(
    target: CommandTarget, process_id: ProcessId, reason: Reason = None, by: ActorName = None, json: AsJson = False
) -> None:
    """End the hold of a process, or let one go on that its budget suspended. A worker goes on with it."""
    from seekpoint.schemas.errors import Refused
    from seekpoint.schemas.state.lifecycle import Lifecycle

    actor = by or user_name("--actor")
    state = unfinished_state(target, process_id)
    if not state.is_on_hold and state.lifecycle is not Lifecycle.SUSPENDED:
        raise Refused(
            "the process is not suspended, nothing was sent", process_id=process_id,
            hint="seekpoint state PROCESS_ID shows what it waits for",
        )  # fmt: skip
    send_and_confirm(target.reachable(), process_id, lambda node: node.resume(process_id, reason, actor=actor))
    if json:
        emit_json({"process_id": process_id, "suspended": False, "sent": True, "reason": reason, "actor": actor})
        return
    say(clean(f"{process_id}: resumed, as {actor}; a worker goes on with it, or seekpoint run"))
