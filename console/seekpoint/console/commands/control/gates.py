"""``seekpoint gates ls``, ``approve`` and ``deny``: list the open gates of processes, and answer them."""

from __future__ import annotations

from seekpoint.console.render.gate_rows import GATE_COLUMNS, gate_row, gates_of
from seekpoint.console.render.output import emit_json_list, say
from seekpoint.console.render.tables import emit_table
from seekpoint.console.services.arguments.options import AsJson, OptionalProcessId, Wide
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.answer_commands import answer_command


def ls(
    target: CommandTarget,
    process_id: OptionalProcessId = None,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """List open gates, each with its prompt and its deadline: from the view, or without one from the whole log."""
    from seekpoint.console.render.listing import open_states

    states = open_states(target, process_id, lambda one: "gate" in one.waits_for)
    found = (facts for name, state in states for facts in gates_of(name, state))
    if json:
        emit_json_list({}, "gates", found)
    elif not emit_table(GATE_COLUMNS, map(gate_row, found), wide=wide):
        say("no gate is open")


approve = answer_command(
    "Approve a gate. If several gates of that name are open, the oldest one is approved.", is_approved=True
)
deny = answer_command(
    "Deny a gate. If several gates of that name are open, the oldest one is denied.", is_approved=False
)
