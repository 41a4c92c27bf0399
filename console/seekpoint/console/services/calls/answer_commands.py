"""Send answers to the gates of a process from the command line."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.gate_rows import prompt_text
from seekpoint.console.render.output import clean, emit_json, say
from seekpoint.console.services.arguments.options import ActorName, AsJson, GateName, InAdvance, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.control_checks import refuse_finished
from seekpoint.console.services.calls.send_and_confirm import parse_json, user_name, with_node

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.state.process_state import State


def answer_command(help_text: str, *, is_approved: bool) -> Callable[..., None]:
    """Return the body of ``seekpoint approve`` or ``seekpoint deny``."""

    def answer_gate(
        target: CommandTarget,
        process_id: ProcessId,
        gate: GateName,
        by: ActorName = None,
        reason: Reason = None,
        payload: Annotated[
            str | None, typer.Option("--payload", metavar="JSON", help="An object that goes with the answer.")
        ] = None,
        in_advance: InAdvance = False,
        json: AsJson = False,
    ) -> None:
        from seekpoint.producers.durable.waits.gate_answers import verdict_payload

        actor = by or user_name("--actor")
        said = None if payload is None else parse_json(payload, "--payload")
        verdict_payload(is_approved, reason, said)  # raises before anything is read
        question = find_question(target, process_id, gate, in_advance)
        gate_key = question["gate"] or gate

        def answer(node: Node) -> Coroutine[Any, Any, bytes]:
            send = node.approve if is_approved else node.deny
            # find_question has checked that the gate is open.
            return send(process_id, gate_key, payload=said, reason=reason, actor=actor, in_advance=True)

        signal_id = with_node(target.reachable(), answer)
        outcome = "approved" if is_approved else "denied"
        say(clean(f"{process_id}: {gate_key} {outcome}, as {actor}"))
        if json:
            report_answer(question, signal_id, actor, outcome=outcome, reason=reason)

    answer_gate.__doc__ = help_text
    return answer_gate


def find_question(
    target: CommandTarget, process_id: str, gate: str, in_advance: bool, *, may_be_mail: bool = False
) -> dict[str, Any]:
    """Return the question that a gate asks, as plain data, and print it to stderr.

    Raises ``GateNotOpen`` or ``UnknownProcess`` if there is none, unless ``in_advance``.
    """
    from seekpoint.producers.durable.waits.gate_answers import gate_to_answer, has_no_successor, opened_us
    from seekpoint.schemas.errors import GateNotOpen, UnknownProcess
    from seekpoint.schemas.values.clock import iso_time

    question: dict[str, Any] = dict.fromkeys(("gate", "name", "prompt", "since", "deadline")) | {"name": gate}
    try:
        found = gate_to_answer(target.recoverer, process_id, gate, may_be_mail=may_be_mail)
    except (GateNotOpen, UnknownProcess) as exc:
        if in_advance:
            state = unfinished_state(target, process_id, missing_ok=True)
            if has_no_successor(state, gate):
                raise
            why = exc.message.removesuffix(", nothing was sent")
            say(f"sent in advance: {why}; the next gate (or receive) called {gate} takes it")
        elif isinstance(exc, UnknownProcess):
            exc.hint = "send it in advance: --in-advance; list processes: seekpoint ps"
            raise
        else:
            raise
    else:
        if found is None:
            say(clean(f"{process_id}: no gate is open: {gate} waits until the code receives it"))
        else:
            since = opened_us(target.recoverer, process_id, found)
            question |= {
                "gate": found.key,
                "name": found.name,
                "prompt": found.prompt,
                "since": None if since is None else iso_time(since),
                "deadline": None if found.deadline_us is None else iso_time(found.deadline_us),
            }
            waits = f"{question['since'] or 'long ago'} until {question['deadline'] or 'it is answered'}"
            say(clean(f"{process_id} {found.key} asks: {prompt_text(found.prompt)}; it waits from {waits}"))
    return {"process_id": process_id, **question}


def report_answer(question: dict[str, Any], signal_id: bytes, actor: str, *, outcome: str, reason: str | None) -> None:
    """Print the question and its answer as JSON."""
    emit_json({**question, "outcome": outcome, "reason": reason, "actor": actor, "signal_id": signal_id.hex()})


def unfinished_state(target: CommandTarget, process_id: str, *, missing_ok: bool = False) -> State:
    """Return the state of a process. Raises ``ProcessFinished``."""
    state = target.recoverer.recover(process_id, missing_ok=missing_ok).state
    refuse_finished(process_id, state)
    return state
