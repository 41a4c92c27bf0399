"""``seekpoint gates ls | signal | approve | deny | cancel``: what processes wait for, and what a person tells them."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.command import AsJson, command, group
from seekpoint.console.commands.ps import ProcessId, states_of
from seekpoint.console.render.listing import unknown
from seekpoint.console.render.output import Column, clean, emit_json, emit_json_list, emit_table, say
from seekpoint.console.services.sender import By, me, tell, value_of
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.state.state import State

__all__ = ["gates_of", "register"]

_COLUMNS = (Column("process"), Column("gate"), Column("name"), Column("deadline"), Column("prompt"))

GateName = Annotated[str, typer.Argument(metavar="GATE", help="The gate: its name, or its key.", show_default=False)]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]
InAdvance = Annotated[
    bool, typer.Option("--in-advance", help="To the next gate of this name, or a process, that is still to come.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    command(group(app, "gates", "What processes wait for."), "ls")(ls)
    command(app, "signal")(signal)
    command(app, "approve")(approve)
    command(app, "deny")(deny)
    command(app, "cancel")(cancel)


def ls(
    target: CommandTarget,
    process_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this process.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """List open gates, with what a person is asked and until when. Of all processes: reads the whole log."""
    found = (facts for name, state in states_of(target, process_id) for facts in gates_of(name, state))
    if json:
        emit_json_list({}, "gates", found)
    elif not emit_table(_COLUMNS, map(_row, found)):
        say("no gate is open")


def signal(
    target: CommandTarget,
    process_id: ProcessId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.", show_default=False)],
    payload: Annotated[str, typer.Option("--payload", metavar="JSON", help="What it carries.")] = "null",
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Who sends it; you, if not given.")
    ] = None,
    in_advance: InAdvance = False,
    json: AsJson = False,
) -> None:
    """Send a signal to a process: the answer to an open gate, or what its code receives."""
    value, sender = value_of(payload, "--payload"), actor or me("--actor")
    asked = _asked(target, process_id, name, in_advance, may_be_mail=True)
    meant = asked["gate"] or name
    sent = tell(target.require_kafka(), process_id, lambda node: node.signal(process_id, meant, value, actor=sender))
    _told(asked, json, sent, f"{meant}, as {sender}", sender, outcome="signalled", reason=None)


def approve(
    target: CommandTarget,
    process_id: ProcessId,
    gate: GateName,
    by: By = None,
    reason: Reason = None,
    in_advance: InAdvance = False,
    json: AsJson = False,
) -> None:
    """Say yes to a gate. Where several of that name are open, to the one that was opened first."""
    _answer(target, process_id, gate, by, reason, in_advance, json, is_approved=True)


def deny(
    target: CommandTarget,
    process_id: ProcessId,
    gate: GateName,
    by: By = None,
    reason: Reason = None,
    in_advance: InAdvance = False,
    json: AsJson = False,
) -> None:
    """Say no to a gate. Where several of that name are open, to the one that was opened first."""
    _answer(target, process_id, gate, by, reason, in_advance, json, is_approved=False)


def cancel(
    target: CommandTarget,
    process_id: ProcessId,
    reason: Reason = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who asks; you, if not given.")] = None,
) -> None:
    """Ask a process to stop: it takes back what it owes, and never runs on. One that nobody runs, when it is run."""
    actor = by or me("--by")
    state = _state(target, process_id)
    if state.cancelled is not None:
        say(f"{process_id} was cancelled before; it is {state.lifecycle}")
        return
    tell(target.require_kafka(), process_id, lambda node: node.cancel(process_id, reason, actor=actor))
    when = "nobody runs it: it stops when it is run" if state.owner is None else "it stops when its owner comes to it"
    say(f"{process_id}: asked to stop, as {actor}; {when}")


# --- facts ------------------------------------------------------------------------------------------------------------
def gates_of(process_id: str, state: State) -> Iterator[dict[str, Any]]:
    """The open gates of a process, in the order they were opened: objects of ``seekpoint gates ls --json``.

    A finished process has none; one that was cancelled has those of its compensations.
    """
    from seekpoint.producers.durable.waits.gate_answers import open_gates
    from seekpoint.schemas.values.clock import iso_time

    for gate in open_gates(state):
        yield {
            "process_id": process_id,
            "key": gate.key,
            "name": gate.name,
            "deadline": None if gate.deadline_us is None else iso_time(gate.deadline_us),
            "prompt": gate.prompt,
            "seq": gate.seq,
        }


def _row(facts: dict[str, Any]) -> list[object]:
    shown = _prompt(facts["prompt"])
    return [facts["process_id"], facts["key"], facts["name"], facts["deadline"] or "-", shown]


def _prompt(prompt: Any) -> str:
    """The prompt, which is JSON already, as text."""
    import orjson

    return "-" if prompt is None else prompt if isinstance(prompt, str) else orjson.dumps(prompt).decode()


# --- what they need ---------------------------------------------------------------------------------------------------
def _answer(
    target: CommandTarget,
    process_id: str,
    gate: str,
    by: str | None,
    reason: str | None,
    in_advance: bool,
    json: bool,
    *,
    is_approved: bool,
) -> None:
    actor = by or me("--by")
    asked = _asked(target, process_id, gate, in_advance)
    meant = asked["gate"] or gate

    def answer(node: Node) -> Coroutine[Any, Any, bytes]:
        say_it = node.approve if is_approved else node.deny
        return say_it(process_id, meant, reason=reason, actor=actor, in_advance=True)  # the look was taken above

    sent = tell(target.require_kafka(), process_id, answer)
    outcome = "approved" if is_approved else "denied"
    _told(asked, json, sent, f"{meant} {outcome}, as {actor}", actor, outcome=outcome, reason=reason)


def _asked(
    target: CommandTarget, process_id: str, gate: str, in_advance: bool, *, may_be_mail: bool = False
) -> dict[str, Any]:
    """The question that is answered, on stderr too; raises where there is none, unless ``in_advance``."""
    from seekpoint.producers.durable.waits.gate_answers import gate_to_answer, has_no_successor, opened_us
    from seekpoint.schemas.errors import GateNotOpen, UnknownProcess
    from seekpoint.schemas.values.clock import iso_time

    asked: dict[str, Any] = dict.fromkeys(("gate", "name", "prompt", "since", "deadline")) | {"name": gate}
    try:
        found = gate_to_answer(target.recoverer, process_id, gate, may_be_mail=may_be_mail)
    except (GateNotOpen, UnknownProcess) as exc:
        if in_advance:
            state = _state(target, process_id, missing_ok=True)  # a finished process takes nothing in advance either
            if has_no_successor(state, gate):
                raise
            why = exc.message.removesuffix(", nothing was sent")
            say(f"sent in advance: {why}; the next gate (or receive) called {gate} takes it")
        elif isinstance(exc, UnknownProcess):
            raise unknown(target, exc, "send it in advance: --in-advance") from exc
        else:
            raise
    else:
        if found is None:
            say(clean(f"{process_id}: no gate is open: {gate} waits until the code receives it"))
        else:
            since = opened_us(target.recoverer, process_id, found)
            asked |= {
                "gate": found.key,
                "name": found.name,
                "prompt": found.prompt,
                "since": None if since is None else iso_time(since),
                "deadline": None if found.deadline_us is None else iso_time(found.deadline_us),
            }
            waits = f"{asked['since'] or 'long ago'} until {asked['deadline'] or 'it is answered'}"
            say(clean(f"{process_id} {found.key} asks: {_prompt(found.prompt)}; it waits from {waits}"))
    return {"process_id": process_id, **asked}


def _told(asked: dict[str, Any], json: bool, sent: bytes, line: str, actor: str, **how: Any) -> None:
    say(clean(f"{asked['process_id']}: {line}"))
    if json:
        emit_json({**asked, **how, "actor": actor, "signal_id": sent.hex()})


def _state(target: CommandTarget, process_id: str, *, missing_ok: bool = False) -> State:
    from seekpoint.schemas.errors import ProcessFinished

    state = target.recoverer.recover(process_id, missing_ok=missing_ok).state
    if state.finished:
        raise ProcessFinished("the process is finished: nothing reaches it any more", process_id=process_id)
    return state
