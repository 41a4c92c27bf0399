"""Check whether a gate can be answered: it is open, and it has no answer yet.

A sender checks before it sends, to report a mistyped id or an earlier answer. The check decides nothing: the gate may
close between the check and the answer, and the order of the log says which answer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import orjson

from seekpoint.consumers.recovery.process_history import newest_entry
from seekpoint.producers.durable.effects.compensation_names import UNDO
from seekpoint.producers.durable.waits.gate_calls import verdict_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import GateNotOpen, ProcessFinished, Refused, SeekpointError, UnknownProcess
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.clock import iso_time
from seekpoint.schemas.values.near_names import did_you_mean

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.state.process_state import MailItem, State


class OpenGate(FrozenStruct, frozen=True):
    """A gate that waits for an answer, with the prompt for a person and the deadline."""

    key: str
    name: str
    prompt: Any
    deadline_us: int | None
    seq: int
    refused: str | None = None
    """Why its newest answer was refused."""


def verdict_payload(is_approved: bool, reason: str | None, payload: Any = None) -> dict[str, Any]:
    """Return the payload of a signal that approves or denies, with ``payload`` (an object, or None) in it.

    Raises ``Refused`` for another payload, and for one that has a verdict of its own.
    """
    if payload is not None and (not isinstance(payload, dict) or {"approved", "reason"} & payload.keys()):
        raise Refused(
            "the payload of a verdict is an object without the keys approved and reason",
            hint="another payload is a signal: seekpoint signal PROCESS_ID GATE JSON",
        )  # fmt: skip
    verdict = {"approved": is_approved} if reason is None else {"approved": is_approved, "reason": reason}
    return {**(payload or {}), **verdict}


def open_gates(state: State) -> list[OpenGate]:
    """Return the open gates of a process in the order in which they were opened.

    A finished process has none. A cancelled process has those of its compensations.
    """
    if state.finished:
        return []
    scope, found = "" if state.cancelled is None else UNDO, []
    for key, call in state.calls.items():
        if call.kind == "gate" and call.status == "started" and key.startswith(scope):
            facts = call.facts
            prompt = orjson.loads(facts.get("prompt", "null"))
            found.append(
                OpenGate(
                    key, facts["name"], prompt, facts.get("deadline_us"), state.entry_seq(call), facts.get("refused")
                )
            )
    return sorted(found, key=lambda gate: state.calls[gate.key].seq)


def unanswered_gates(state: State) -> list[OpenGate]:
    """Return the open gates that no answer in the mailbox is for: its owner has not read that yet."""
    waiting = open_gates(state)
    answered = dict(_answers(state, waiting))
    return [gate for gate in waiting if gate.key not in answered]


def gate_to_answer(recoverer: Recoverer, process_id: str, gate: str, *, may_be_mail: bool = False) -> OpenGate | None:
    """Return the gate for an answer to ``gate``, a name or a key: of several gates the one that was opened first.

    Raises ``UnknownProcess``, ``ProcessFinished``, and ``GateNotOpen`` if no such gate is open, or each has an answer
    (the error says by whom, when and how). With ``may_be_mail`` the name may also be one that code receives
    (``process.receive``): returns None if no gate ever had the name and none is open. Blocks.
    """
    state = recoverer.recover(process_id, missing_ok=True, must_be_current=True).state
    if state.epoch == 0:
        raise UnknownProcess(
            "no such process, nothing was sent", process_id=process_id,
            hint="check the id: seekpoint ps; or send it in advance: --in-advance (in_advance=True)",
        )  # fmt: skip
    waiting = open_gates(state)
    meant = [one for one in waiting if gate in (one.key, one.name)]
    answers = dict(_answers(state, waiting))
    for one in meant:
        if one.key not in answers:
            return one
    if meant:
        item = answers[meant[0].key]
        raise _answered(process_id, state, meant[0].key, _answer_in(item), _when(recoverer, process_id, item))
    closed = _closed(state, gate)
    if closed is not None:
        key, answer = closed
        raise _answered(process_id, state, key, answer, _when(recoverer, process_id, key))
    if state.finished:
        raise ProcessFinished("the process is finished: nothing reaches it any more", process_id=process_id)
    if may_be_mail and not waiting:
        return None
    raise GateNotOpen(
        "no gate of this name or key is open, nothing was sent", process_id=process_id, gate=gate,
        open=", ".join(one.key for one in waiting) or "none", hint=_hint(state, waiting, gate),
    )  # fmt: skip


def has_no_successor(state: State, gate: str) -> bool:
    """Whether ``gate`` is the key of a gate that was opened: no later gate can have this key or this name."""
    call = state.calls.get(gate)
    return call is not None and call.kind == "gate" and call.facts.get("name") != gate


def opened_us(recoverer: Recoverer, process_id: str, gate: OpenGate) -> int | None:
    """Return when the gate was opened, by its owner's clock; None if the journal no longer has the entry. Blocks."""
    return _time_of(recoverer, process_id, lambda entry: _is_about(entry, b.GateOpened, gate.key))


# --- the answers ------------------------------------------------------------------------------------------------------
def _answers(state: State, waiting: list[OpenGate]) -> Iterator[tuple[str, MailItem]]:
    """Yield the key of each gate that an answer in the mailbox is for, and that answer."""
    left = [item for item in state.mailbox.values() if item.kind == b.Signal.KIND]
    for gate in waiting:
        item = next((item for item in left if item.name in (gate.key, gate.name)), None)
        if item is not None:
            left.remove(item)
            yield gate.key, item


def _closed(state: State, gate: str) -> tuple[str, dict[str, Any]] | None:
    """Return the key of the newest closed gate of this name or key that the state has, and its answer."""
    closed = [(key, call) for key, call in state.calls.items() if call.kind == "gate" and call.status == "succeeded"]
    named = [(call.seq, key, call) for key, call in closed if gate in (key, call.facts.get("name"))]
    if not named:
        return None
    _, key, call = max(named, key=lambda one: one[:2])
    return key, orjson.loads(call.output or "{}")


def _hint(state: State, waiting: list[OpenGate], gate: str) -> str:
    if waiting:
        return did_you_mean(gate, [name for one in waiting for name in (one.name, one.key)], GateNotOpen.hint)
    if state.cancelled is not None:
        return "the process was cancelled: its code opens no more gates"
    return (
        "its code waits at no gate now: seekpoint state PROCESS_ID; "
        "answer one that is to come: --in-advance (in_advance=True)"
    )


def _answer_in(item: MailItem) -> dict[str, Any]:
    outcome, reason = verdict_of(item.payload)
    return {"outcome": outcome, "actor": item.actor, "reason": reason}


def _answered(process_id: str, state: State, key: str, answer: dict[str, Any], at_us: int | None) -> GateNotOpen:
    call = state.calls.get(key)
    name = key if call is None else call.facts.get("name", key)
    ahead = "" if state.finished else f", or answer the next gate called {name}: --in-advance (in_advance=True)"
    timed_out = answer.get("outcome") == "timed_out"
    return GateNotOpen(
        "nobody answered the gate in time" if timed_out else "the gate was answered already, nothing was sent",
        process_id=process_id, gate=key, outcome=answer.get("outcome"), actor=answer.get("actor"),
        reason=answer.get("reason"), at=None if at_us is None else iso_time(at_us),
        hint=f"an answer counts once; see seekpoint log PROCESS_ID{ahead}",
    )  # fmt: skip


# --- the times --------------------------------------------------------------------------------------------------------
def _when(recoverer: Recoverer, process_id: str, answer: MailItem | str) -> int | None:
    """Return when the answer was sent, or when the gate of this key was closed."""
    if isinstance(answer, str):
        return _time_of(recoverer, process_id, lambda entry: _is_about(entry, b.GateResolved, answer))
    return _time_of(recoverer, process_id, lambda entry: entry.id == answer.id)


def _is_about(entry: Entry, kind: type[b.GateOpened | b.GateResolved], key: str) -> bool:
    return isinstance(entry.body, kind) and entry.body.key == key


def _time_of(recoverer: Recoverer, process_id: str, is_meant: Callable[[Entry], bool]) -> int | None:
    try:
        found = newest_entry(recoverer, process_id, is_meant)
    except SeekpointError:  # the error is useful without the time
        return None
    return None if found is None else found.entry.ts
