"""``seekpoint suspend``: put a process on hold."""

from __future__ import annotations

from seekpoint.console.render.output import clean, emit_json, say
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.answer_commands import unfinished_state
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node


def suspend(
    target: CommandTarget, process_id: ProcessId, reason: Reason = None, by: ActorName = None, json: AsJson = False
) -> None:
    """Put a process on hold: neither a worker nor ``seekpoint run`` runs it before ``seekpoint resume``.

    A worker stops a run under way at once, as a crash would.
    """
    actor = by or user_name("--actor")
    is_new = not unfinished_state(target, process_id).is_on_hold
    if is_new:
        with_node(target.reachable(), lambda node: node.suspend(process_id, reason, actor=actor))
    if json:
        emit_json({"process_id": process_id, "suspended": True, "sent": is_new, "reason": reason, "actor": actor})
    else:
        say(clean(f"{process_id}: suspended, as {actor}" if is_new else f"{process_id} is already suspended"))
