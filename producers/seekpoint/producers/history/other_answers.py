"""Give calls another answer than they had, in content that a rewind or a fork restores. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from msgspec.structs import replace

from seekpoint.producers.durable.waits.gate_answers import verdict_payload
from seekpoint.producers.durable.waits.gate_calls import verdict_of
from seekpoint.schemas.errors import LimitExceeded, Refused
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.near_names import did_you_mean
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.schemas.bodies import Json
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import Draft

_ANSWERED = frozenset({"step", "decision", "sample", "gate"})
_GATE_OUTCOMES = ("approved", "denied", "signalled", "timed_out")


def put_answers(
    draft: Draft, answers: Mapping[str, Any], process_id: str, limits: Limits, actor: str | None = None
) -> None:
    """Replace the answers of ended calls of ``draft``, by key: those of steps, decisions, samples and gates.

    The answer is what the call returns. Of a gate it is ``"approved"``, ``"denied"``, a payload as a signal has it, or
    an object with ``outcome``, ``payload``, ``actor`` and ``reason``. Raises ``Refused`` for another call, and for an
    answer that is no time where the call is ``now``, or no UUID; ``UnserializableValue`` and ``LimitExceeded`` for an
    answer that cannot be journaled. The caller sees to ``content_bytes``.
    """
    for key, answer in answers.items():
        call = draft.calls.get(key)
        if call is None:
            raise Refused(
                "there is no such call at this point to give another answer to", process_id=process_id, key=key,
                hint=did_you_mean(
                    key, draft.calls,
                    f"seekpoint steps {pasted(process_id)} shows the calls; go to a point right after its end",
                ),
            )  # fmt: skip
        _check(key, call, process_id)
        text = _gate_text(key, answer, limits, actor) if call.kind == "gate" else dump(answer, limits, True)
        _check_value(key, call, text, limits, process_id)
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


def _check_value(key: str, call: Call, text: Json, limits: Limits, process_id: str) -> None:
    """Raise for a value that no run of the call can return: a time that is none, or more than an entry holds."""
    if len(text) > limits.record_bytes:
        raise LimitExceeded(
            "the answer is larger than an entry may be", process_id=process_id, key=key, bytes=len(text),
            limit=limits.record_bytes,
        )  # fmt: skip
    was = None if call.kind != "sample" or call.output is None else load(call.output)
    if isinstance(was, datetime | UUID) and not isinstance(load(text), type(was)):
        raise Refused(
            f"the answer of this sample is a {'time' if isinstance(was, datetime) else 'UUID'}", process_id=process_id,
            key=key, found=text[:80], hint=f"write it as JSON like {dump(was)}",
        )  # fmt: skip


def _gate_text(key: str, answer: Any, limits: Limits, actor: str | None) -> Json:
    """Return the output of a gate with this answer, as the fold makes it."""
    if type(answer) is str and answer in ("approved", "denied"):
        answer = verdict_payload(answer == "approved", None)
    if isinstance(answer, dict) and answer.get("outcome") in _GATE_OUTCOMES:
        outcome, reason, payload = answer["outcome"], answer.get("reason"), answer.get("payload")
        actor = answer.get("actor", actor)
        if not isinstance(reason, str | None) or not isinstance(actor, str | None):
            raise Refused("actor and reason of a gate's answer are texts", key=key, found=repr([actor, reason])[:80])
    else:
        payload, (outcome, reason) = answer, verdict_of(answer)
    made = {"outcome": outcome, "payload": dump(payload, limits, True), "actor": actor, "reason": reason}
    return orjson.dumps(made).decode()


def other_shapes(calls: Mapping[str, Call], answers: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the answers have another shape in than those recorded: code that takes the old one may fail.

    A gate's answer is a verdict or any payload, and a null fits everything.
    """
    for key, answer in answers.items():
        call = calls.get(key)
        if call is not None and call.kind != "gate" and call.status == "succeeded" and call.output is not None:
            difference = _shape_difference("$", orjson.loads(call.output), orjson.loads(dump(answer, with_models=True)))
            if difference is not None:
                yield f"{key}: {difference}"


def _shape_difference(path: str, was: Any, given: Any) -> str | None:
    if was is None or given is None:
        return None
    kind, other = _kind(was), _kind(given)
    if kind != other:
        return f"{path} was {kind}, and is {other}"
    if not isinstance(was, dict):
        return None
    if other_keys := sorted(was.keys() ^ given.keys()):
        return f"{path} {'lacks' if other_keys[0] in was else 'has also'} {other_keys[0]}"
    return next(filter(None, (_shape_difference(f"{path}.{key}", was[key], given[key]) for key in was)), None)


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", str: "a text", dict: "an object", list: "a list"}
    return kinds.get(type(value), "a number")
