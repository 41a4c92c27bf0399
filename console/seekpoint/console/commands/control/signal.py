"""``seekpoint signal``: send a signal to a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import clean, say
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import parse_json, user_name, with_node

if TYPE_CHECKING:
    pass
from seekpoint.console.services.arguments.options import AsJson, InAdvance, ProcessId
from seekpoint.console.services.calls.answer_commands import find_question, report_answer


def signal(
    target: CommandTarget,
    process_id: ProcessId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.", show_default=False)],
    payload: Annotated[str, typer.Option("--payload", metavar="JSON", help="The payload.")] = "null",
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Who sends it; your user name if not given.")
    ] = None,
    in_advance: InAdvance = False,
    json: AsJson = False,
) -> None:
    """Send a signal to a process: an answer to an open gate, or a message that its code receives."""
    value, sender = parse_json(payload, "--payload"), actor or user_name("--actor")
    question = find_question(target, process_id, name, in_advance, may_be_mail=True)
    signal_name = question["gate"] or name
    signal_id = with_node(target.reachable(), lambda node: node.signal(process_id, signal_name, value, actor=sender))
    say(clean(f"{process_id}: {signal_name}, as {sender}"))
    if json:
        report_answer(question, signal_id, sender, outcome="signalled", reason=None)
