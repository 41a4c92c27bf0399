"""Give calls another answer than they had, in content that a rewind or a fork restores. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from seekpoint.producers.durable.waits.gate_answers import verdict_payload
from seekpoint.producers.durable.waits.gate_calls import verdict_of
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.schemas.bodies import Json
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import Draft

__all__ = ["put_answers"]

_ANSWERED = frozenset({"step", "decision", "sample", "gate"})
_GATE_OUTCOMES = ("approved", "denied", "signalled", "timed_out")


def put_answers(
    draft: Draft, answers: Mapping[str, Any], process_id: str, limits: Limits, actor: str | None = None
) -> None:
    """Replace the answers of ended calls of ``draft``, by key: those of steps, decisions, samples and gates.

    The answer is what the call returns. Of a gate it is ``"approved"``, ``"denied"``, a payload as a signal has it, or
    an object with ``outcome``, ``payload``, ``actor`` and ``reason``. Raises ``Refused`` for another call, and
    ``UnserializableValue`` for an answer that cannot be journaled. The caller sees to ``content_bytes``.
    """
    for key, answer in answers.items():
        call = draft.calls.get(key)
        if call is None:
            raise Refused(
                "there is no such call at this point to give another answer to", process_id=process_id, key=key,
                hint=f"seekpoint steps {process_id} shows the calls; go to a point right after the end of this one",
            )  # fmt: skip
        _check(key, call, process_id)
        text = _gate_text(answer, limits, actor) if call.kind == "gate" else dump(answer, limits, True)
        detail = call.detail if call.kind == "gate" else None  # a gate is found by the name in its facts
        draft.calls.put(key, replace(call, status="succeeded", output=text, error=None, detail=detail))


def _check(key: str, call: Call, process_id: str) -> None:
    """Raise ``Refused`` for a call whose answer is a fact about something outside, and for one that has none."""
    if call.kind not in _ANSWERED:
        raise Refused(
            f"the outcome of this {call.kind} is a fact: it has no other answer", process_id=process_id, key=key,
            hint="answer the decision, the gate or the step that led to it",
        )  # fmt: skip
    if call.status not in ("succeeded", "failed"):
        hint = "approve or deny it: seekpoint approve, seekpoint deny" if call.kind == "gate" else "let it end first"
        raise Refused(f"this {call.kind} has no answer yet", process_id=process_id, key=key, hint=hint)


def _gate_text(answer: Any, limits: Limits, actor: str | None) -> Json:
    """Return the output of a gate with this answer, as the fold makes it."""
    if type(answer) is str and answer in ("approved", "denied"):
        answer = verdict_payload(answer == "approved", None)
    if isinstance(answer, dict) and answer.get("outcome") in _GATE_OUTCOMES:
        outcome, reason, payload = answer["outcome"], answer.get("reason"), answer.get("payload")
        actor = answer.get("actor", actor)
    else:
        payload, (outcome, reason) = answer, verdict_of(answer)
    made = {"outcome": outcome, "payload": dump(payload, limits, True), "actor": actor, "reason": reason}
    return orjson.dumps(made).decode()
