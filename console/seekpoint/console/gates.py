"""``seekpoint gates ls | signal | approve | deny | cancel``: what processes wait for, and what a person tells them."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.commands import AsJson, command, group
from seekpoint.console.output import Column, emit_json_list, emit_table, say
from seekpoint.console.processes import ProcessId, states_of
from seekpoint.console.sender import By, me, tell, value_of
from seekpoint.console.target import Target

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.state import State

__all__ = ["gates_of", "register"]

_COLUMNS = (Column("process"), Column("gate"), Column("name"), Column("deadline"), Column("prompt"))

GateName = Annotated[str, typer.Argument(metavar="GATE", help="The gate: its name, or its key.", show_default=False)]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    command(group(app, "gates", "What processes wait for."), "ls")(ls)
    command(app, "signal")(signal)
    command(app, "approve")(approve)
    command(app, "deny")(deny)
    command(app, "cancel")(cancel)


def ls(
    target: Target,
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
    target: Target,
    process_id: ProcessId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.", show_default=False)],
    payload: Annotated[str, typer.Option("--payload", metavar="JSON", help="What it carries.")] = "null",
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Who sends it; you, if not given.")
    ] = None,
) -> None:
    """Send a signal to a process; one that does not exist yet finds it when it does."""
    value, sender = value_of(payload, "--payload"), actor or me("--actor")
    if not _state(target, process_id, missing_ok=True).epoch:
        say(f"{process_id} was never opened: the signal waits for it")
    tell(target.require_kafka(), process_id, lambda node: node.signal(process_id, name, value, actor=sender))
    say(f"{process_id}: {name}, as {sender}")


def approve(target: Target, process_id: ProcessId, gate: GateName, by: By = None, reason: Reason = None) -> None:
    """Say yes to a gate. Where several of that name are open, to the one that was opened first."""
    _answer(target, process_id, gate, by, reason, is_approved=True)


def deny(target: Target, process_id: ProcessId, gate: GateName, by: By = None, reason: Reason = None) -> None:
    """Say no to a gate. Where several of that name are open, to the one that was opened first."""
    _answer(target, process_id, gate, by, reason, is_approved=False)


def cancel(
    target: Target,
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
    say(f"{process_id}: asked to stop, as {actor}; its owner accepts it when it comes to it")


# --- facts ------------------------------------------------------------------------------------------------------------
def gates_of(process_id: str, state: State) -> Iterator[dict[str, Any]]:
    """The open gates of a process, in the order they were opened: objects of ``seekpoint gates ls --json``.

    One that was cancelled, or is finished, waits for nothing any more.
    """
    from datetime import UTC, datetime

    import orjson

    gates = [(key, call) for key, call in state.calls.items() if call.kind == "gate" and call.status == "started"]
    if state.cancelled is not None or state.finished:
        return
    for key, call in sorted(gates, key=lambda one: one[1].seq):
        facts = call.facts
        due_us = facts.get("deadline_us")
        yield {
            "process_id": process_id,
            "key": key,
            "name": facts["name"],
            "deadline": None if due_us is None else datetime.fromtimestamp(due_us / 1_000_000, UTC).isoformat(),
            "prompt": orjson.loads(facts.get("prompt", "null")),
            "seq": call.seq,
        }


def _row(facts: dict[str, Any]) -> list[object]:
    from seekpoint.schemas.values import dump

    prompt = facts["prompt"]
    shown = "-" if prompt is None else prompt if isinstance(prompt, str) else dump(prompt)
    return [facts["process_id"], facts["key"], facts["name"], facts["deadline"] or "-", shown]


# --- what they need ---------------------------------------------------------------------------------------------------
def _answer(
    target: Target, process_id: str, gate: str, by: str | None, reason: str | None, *, is_approved: bool
) -> None:
    actor = by or me("--by")
    state = _state(target, process_id, missing_ok=True)
    open_gates = list(gates_of(process_id, state))
    meant = next((one["key"] for one in open_gates if gate in (one["name"], one["key"])), None)
    if meant is None:
        names = ", ".join(sorted({one["name"] for one in open_gates}))
        say(f"no gate {gate} is open: the answer waits for one{f' (open: {names})' if names else ''}")
    answered = meant or gate

    def answer(node: Node) -> Coroutine[Any, Any, bytes]:
        say_it = node.approve if is_approved else node.deny
        return say_it(process_id, answered, reason=reason, actor=actor)

    tell(target.require_kafka(), process_id, answer)
    say(f"{process_id} {answered}: {'approved' if is_approved else 'denied'}, as {actor}")


def _state(target: Target, process_id: str, *, missing_ok: bool = False) -> State:
    from seekpoint.schemas.errors import ProcessFinished, UnknownProcess
    from seekpoint.schemas.state import new_state

    try:
        state = target.recoverer.recover(process_id).state
    except UnknownProcess:
        if not missing_ok:
            raise
        return new_state()
    if state.finished:
        raise ProcessFinished("the process is finished: nothing reaches it any more", process_id=process_id)
    return state
