"""``seekpoint cancel``: ask a process to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.render.output import emit_json, say
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node

if TYPE_CHECKING:
    pass
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.calls.answer_commands import unfinished_state


def cancel(
    target: CommandTarget,
    process_id: ProcessId,
    reason: Reason = None,
    by: ActorName = None,
    json: AsJson = False,
) -> None:
    """Ask a process to stop. Its owner compensates its effects, and the process never continues.

    A process without an owner stops when it is run.
    """
    actor = by or user_name("--actor")
    state = unfinished_state(target, process_id)
    is_new = state.cancelled is None
    if is_new:
        with_node(target.reachable(), lambda node: node.cancel(process_id, reason, actor=actor))
    if json:
        emit_json({"process_id": process_id, "cancelled": True, "sent": is_new, "reason": reason, "actor": actor})
        return
    if not is_new:
        say(f"{process_id} is already cancelled; it is {state.lifecycle}")
        return
    when = "it has no owner and stops when it is run" if state.owner is None else "it stops at its owner's next call"
    say(f"{process_id}: asked to stop, as {actor}; {when}")
