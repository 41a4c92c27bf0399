"""``seekpoint gates ls``: list the open gates of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.render.output import emit_json_list, emit_table, say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    pass
from seekpoint.console.render.gate_rows import GATE_COLUMNS, gate_row, gates_of
from seekpoint.console.services.options import AsJson, OptionalProcessId
from seekpoint.console.services.process_scan import states_of

__all__ = ["ls"]


def ls(
    target: CommandTarget,
    process_id: OptionalProcessId = None,
    json: AsJson = False,
) -> None:
    """List open gates, each with its prompt and its deadline. Without ID, read the whole log."""
    found = (facts for name, state in states_of(target, process_id) for facts in gates_of(name, state))
    if json:
        emit_json_list({}, "gates", found)
    elif not emit_table(GATE_COLUMNS, map(gate_row, found)):
        say("no gate is open")
