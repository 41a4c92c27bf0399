"""``seekpoint suspend``: put a process on hold."""

from __future__ import annotations

from seekpoint.console.render.output import clean, say
from seekpoint.console.services.answer_commands import unfinished_state
from seekpoint.console.services.options import ActorName, ProcessId, Reason
from seekpoint.console.services.sender import send_and_confirm, user_name
from seekpoint.console.services.target import CommandTarget

__all__ = ["suspend"]


def suspend(target: CommandTarget, process_id: ProcessId, reason: Reason = None, by: ActorName = None) -> None:
    """Put a process on hold: neither a worker nor ``seekpoint run`` runs it before ``seekpoint resume``.

    A worker stops a run under way at once, as a crash would.
    """
    actor = by or user_name("--actor")
    if unfinished_state(target, process_id).is_on_hold:
        say(clean(f"{process_id} is already suspended"))
        return
    send_and_confirm(target.reachable(), process_id, lambda node: node.suspend(process_id, reason, actor=actor))
    say(clean(f"{process_id}: suspended, as {actor}"))
