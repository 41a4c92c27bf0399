"""``seekpoint resume``: end the hold of a process."""

from __future__ import annotations

from seekpoint.console.render.output import clean, emit_json, say
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.answer_commands import unfinished_state
from seekpoint.console.services.calls.control_checks import refuse_running
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node


def resume(
    target: CommandTarget, process_id: ProcessId, reason: Reason = None, by: ActorName = None, json: AsJson = False
) -> None:
    """End the hold of a process, or let one go on that its budget suspended. A worker goes on with it."""
    actor = by or user_name("--actor")
    refuse_running(process_id, unfinished_state(target, process_id))
    with_node(target.reachable(), lambda node: node.resume(process_id, reason, actor=actor))
    if json:
        emit_json({"process_id": process_id, "suspended": False, "sent": True, "reason": reason, "actor": actor})
        return
    say(clean(f"{process_id}: resumed, as {actor}; a worker goes on with it, or seekpoint run"))
