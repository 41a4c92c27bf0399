"""The fold's rules for calls, turns and budgets.

A start creates its call or begins the next attempt of it; an end ends the attempt that it names. Any other body does
not fit. Each rule returns None, or the reason why the body does not fit; then the draft is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec.structs import replace

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.attempt_rules import (
    begin_call,
    begin_wait,
    close_call,
    end_attempt,
    hashed_key,
    illegal,
    key_of_step,
    put_call,
    take_mail,
    whole_attempt,
)
from seekpoint.schemas.folding.charges import AMOUNT_ERRORS
from seekpoint.schemas.folding.content_rules import Misfit, Rule, too_big
from seekpoint.schemas.folding.effect_rules import EFFECT_RULES
from seekpoint.schemas.state.budget_sums import Budget, amount_of, amounts_in
from seekpoint.schemas.state.calls import AgentRun, Call, call_width, may_be_redriven, write_digest, write_position
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, frame_of
from seekpoint.schemas.state.state_values import encoded, size_of, text_width


# --- steps, decisions, samples ----------------------------------------------------------------------------------------
def _start_step(draft: Draft, body: b.StepStarted, limits: Limits) -> Misfit:
    return begin_call(draft, body, limits, "step", "started", key_of_step(body))


def _end_step(draft: Draft, body: b.StepEnded, limits: Limits) -> Misfit:
    if body.position is None:
        return end_attempt(draft, body, "step", body.output, limits)
    return whole_attempt(draft, body, limits)


def _start_decision(draft: Draft, body: b.DecisionStarted, limits: Limits) -> Misfit:
    return begin_call(draft, body, limits, "decision", "started", {"policy": body.policy})


def _end_decision(draft: Draft, body: b.DecisionMade, limits: Limits) -> Misfit:
    return end_attempt(draft, body, "decision", body.response, limits)


def _sample(draft: Draft, body: b.Sampled, limits: Limits) -> Misfit:
    old = draft.calls.get(body.key)
    is_open = old is None or (old.kind == "sample" and old.status == "started")  # a failed one that was set aside
    if not body.key or not is_open or body.position < 1:
        return illegal(f"{body.key[:80]} was sampled before")
    attempt, seq = 1 if old is None else old.attempt + 1, draft.call_seq + 1
    if body.error is None:
        call = Call("sample", body.position, body.digest, "succeeded", attempt, seq, body.value)
    else:
        call = Call("sample", body.position, body.digest, "failed", attempt, seq, error=body.error)
    return put_call(draft, body.key, call, limits)


# --- timers, gates, mail, children ------------------------------------------------------------------------------------
def _set_timer(draft: Draft, body: b.TimerSet, limits: Limits) -> Misfit:
    return begin_wait(draft, body, limits, "timer", {"fires_at_us": body.fires_at_us})


def _fire_timer(draft: Draft, body: b.TimerFired, limits: Limits) -> Misfit:
    call = draft.calls.get(body.key)
    due = None if call is None else call.facts.get("fires_at_us")
    if type(due) is int and body.fired_at_us < due:
        return illegal(f"{body.key[:80]} is not due yet")
    return close_call(draft, body.key, "timer", "succeeded", "null", None, limits)


def _open_gate(draft: Draft, body: b.GateOpened, limits: Limits) -> Misfit:
    facts = {"name": body.name, "deadline_us": body.deadline_us}
    if body.prompt != "null":
        facts["prompt"] = body.prompt
    return begin_wait(draft, body, limits, "gate", facts)


def _resolve_gate(draft: Draft, body: b.GateResolved, limits: Limits) -> Misfit:
    if body.outcome not in ("approved", "denied", "signalled", "timed_out"):
        return illegal(f"no gate is {body.outcome[:40]}")
    answer = {"outcome": body.outcome, "payload": body.payload, "actor": body.actor, "reason": body.reason}
    text = orjson.dumps(answer).decode()
    misfit = close_call(draft, body.key, "gate", "succeeded", text, None, limits)
    if misfit is None:
        take_mail(draft, body.external_id)
    return misfit


def _refuse_answer(draft: Draft, body: b.AnswerRefused, limits: Limits) -> Misfit:
    """Drop an answer. A gate keeps the reason for people; one that the answer had closed is open again, for ever."""
    call, reason = draft.calls.get(body.key), body.reason[:_REASON_CHARS_MAX]
    if body.external_id is not None and body.external_id not in draft.mailbox:
        return illegal(f"{body.key[:80]} refuses what is not in the mailbox")
    misfit: Misfit = None
    if call is not None and call.kind in ("gate", "receive") and call.status in ("started", "succeeded"):
        facts = {**call.facts, "refused": reason}
        if call.status == "succeeded":
            facts.pop("deadline_us", None)
        detail = orjson.dumps(facts).decode()
        waits = replace(call, status="started", seq=draft.call_seq + 1, output=None, detail=detail)
        misfit = put_call(draft, body.key, waits, limits)
    elif call is not None or body.external_id is None:
        return illegal(f"{body.key[:80]} waits for no answer")
    if misfit is None:
        take_mail(draft, body.external_id)
    return misfit


_REASON_CHARS_MAX = 500


def _receive(draft: Draft, body: b.Received, limits: Limits) -> Misfit:
    """Remove an item from the mailbox; the call that received it, if there is one, stores the whole item."""
    misfit = None if body.key is None else _store_mail(draft, body.key, body, limits)
    if misfit is None:
        take_mail(draft, body.external_id)
    return misfit


def _store_mail(draft: Draft, key: str, body: b.Received, limits: Limits) -> Misfit:
    item = draft.mailbox.get(body.external_id)
    old = draft.calls.get(key)
    is_open = old is None or (old.kind == "receive" and old.status == "started")  # its answer was refused
    if not key or not is_open or body.position < 1:
        return illegal(f"{key[:80]} received before")
    if item is None and body.external_id != b.NIL_ID:
        return illegal(f"{key[:80]} receives what is not in the mailbox")
    text = "null" if item is None else encoded(item).decode()
    call = Call("receive", body.position, body.digest, "succeeded", 1, draft.call_seq + 1, text)
    return put_call(draft, key, call, limits)


def _spawn(draft: Draft, body: b.ChildSpawned, limits: Limits) -> Misfit:
    facts = {"child_id": body.child_id, "agent": body.agent, "version": body.version, "limits": body.limits}
    return begin_wait(draft, body, limits, "child", facts)


def _end_child(draft: Draft, body: b.ChildEnded, limits: Limits) -> Misfit:
    if body.outcome not in ("succeeded", "failed"):
        return illegal(f"no child ends {body.outcome[:40]}")
    call, budget = draft.calls.get(body.key), draft.budget
    facts = {} if call is None or call.kind != "child" else call.facts
    try:
        spent, charged = amounts_in(body.spent), amounts_in(facts.get("charged"))
        budget = budget and budget.charge_child(body.key, spent, charged, draft.updated_us)
    except AMOUNT_ERRORS:
        return illegal("what a child used are amounts by dimension")
    # A child that is tried again has spent all the same what an earlier end of it charged.
    detail = None if body.spent is None else orjson.dumps({**facts, "charged": body.spent}).decode()
    misfit = close_call(draft, body.key, "child", body.outcome, body.result, body.error, limits, detail)
    if misfit is None:
        draft.budget = budget
    return misfit


# --- failed calls -----------------------------------------------------------------------------------------------------
def _set_aside(draft: Draft, body: b.CallsSetAside, limits: Limits) -> Misfit:
    """Let calls that failed or are in doubt be made again, as after an attempt whose outcome was retry.

    All of them fit, or none changes.
    """
    try:
        keys = orjson.loads(body.keys)
    except orjson.JSONDecodeError as exc:
        return illegal(f"no list of keys: {exc}")
    if type(keys) is not list or not keys or not all(type(key) is str for key in keys) or len({*keys}) < len(keys):
        return illegal("the keys are texts, each once")
    aside: dict[str, Call] = {}
    for key in keys:
        call = draft.calls.get(key)
        if call is None or not _is_repeatable(call):
            return illegal(f"{key[:80]} is nothing that failed and may be made again, nor a step in doubt")
        aside[key] = _reopened(call, draft.call_seq + 1)
    grown = draft.content_bytes + sum(
        call_width(key, call) - call_width(key, draft.calls[key]) for key, call in aside.items()
    )
    misfit = too_big(grown, limits)
    if misfit is None:
        for key, call in aside.items():
            draft.calls.put(key, call)
        draft.content_bytes = grown
    return misfit


_REPEATABLE = frozenset({"step", "decision", "sample", "child"})
"""The kinds of failed calls that may be set aside. For an effect, its failure decides."""
_BEGUN_ANEW = frozenset({"step", "decision"})
"""The kinds of calls in doubt that may be set aside."""


def _is_repeatable(call: Call) -> bool:
    kinds = _REPEATABLE if call.status == "failed" else _BEGUN_ANEW
    if call.kind == "effect":
        return may_be_redriven(call)
    return call.status in ("failed", "started") and call.kind in kinds


def _reopened(call: Call, seq: int) -> Call:
    if call.kind == "child":
        detail = orjson.dumps({**call.facts, "set_aside": True}).decode()
        return replace(call, status="started", seq=seq, output=None, error=None, detail=detail)
    if call.kind == "effect":  # it keeps all facts, and with them its idempotency key
        detail = orjson.dumps({**call.facts, "attempts_before": call.attempt}).decode()
        return replace(call, status="started", seq=seq, error=None, detail=detail)
    detail = orjson.dumps({**hashed_key(call), "attempts_before": call.attempt}).decode()
    return replace(call, status="started", seq=seq, output=None, error=call.error or "null", detail=detail)


# --- the run ----------------------------------------------------------------------------------------------------------
def _start_agent(draft: Draft, body: b.AgentStarted, limits: Limits) -> Misfit:
    """Start the run of an agent. A process that has not run yet is running after this one entry."""
    if draft.agent is not None:
        return illegal("an agent runs as the process already")
    try:
        granted = amounts_in(body.limits)
    except AMOUNT_ERRORS:
        return illegal("limits are amounts by dimension")
    frame = draft.start_frame or frame_of(draft)  # a fork's code runs from where its parent's began
    wanted = draft.submission
    correlation_id = None if wanted is None else wanted.correlation_id
    spawned_by = body.spawned_by if wanted is None else wanted.spawned_by
    agent = AgentRun(
        body.agent[:200],
        body.version[:200],
        body.definition[:200],
        body.input,
        correlation_id=correlation_id,
        trace_parent=None if body.trace_parent is None else body.trace_parent[:200],
    )
    grown = draft.content_bytes + size_of(agent) + size_of(frame) - size_of(draft.start_frame)
    grown -= size_of(draft.submission)
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.agent, draft.start_frame, draft.content_bytes = agent, frame, grown
        draft.submission = None
        if granted:
            draft.budget = replace(draft.budget or Budget(), limits=granted, granted=granted)
        if spawned_by is not None:
            draft.lineage = replace(draft.lineage, spawned_by=spawned_by[:200])
        if draft.lifecycle in _BEFORE_RUNNING:
            draft.lifecycle, draft.lifecycle_us = Lifecycle.RUNNING, draft.updated_us
    return misfit


_BEFORE_RUNNING = frozenset({Lifecycle.CREATED, Lifecycle.STARTING})


def _end_turn(draft: Draft, body: b.TurnEnded, limits: Limits) -> Misfit:
    """End a turn: its calls leave the state, except effects that are not settled."""
    if body.number != draft.turn + 1:
        return illegal(f"turn {draft.turn + 1} has to end next")
    frame, calls = frame_of(draft), draft.calls.of_turn(body.number)
    unsettled = {key: call for key, call in calls.items() if _is_unsettled_effect(call)}
    grown = draft.content_bytes + size_of(frame) - size_of(draft.turn_frame)
    grown -= sum(call_width(key, call) for key, call in calls.items() if key not in unsettled)
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.calls.end_turn(body.number, unsettled)
        draft.turn, draft.turn_frame, draft.content_bytes = body.number, frame, grown
    return misfit


def _is_unsettled_effect(call: Call) -> bool:
    return call.kind == "effect" and call.status not in ("succeeded", "failed")


def _accept_cancel(draft: Draft, body: b.CancelAccepted, limits: Limits) -> Misfit:
    if draft.cancelled is None:
        draft.cancelled = (body.reason or "")[:200]
    take_mail(draft, body.external_id)
    return None


def _mark_patch(draft: Draft, body: b.PatchMarked, limits: Limits) -> Misfit:
    if body.id in draft.patches:
        return None
    grown = draft.content_bytes + text_width(body.id) + 1
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.patches, draft.content_bytes = (*draft.patches, body.id), grown
    return misfit


def _diverge(draft: Draft, body: b.Diverged, limits: Limits) -> Misfit:
    return None


# --- budgets ----------------------------------------------------------------------------------------------------------
_ACTIONS = ("pause", "fail", "escalate")


def _set_budget(draft: Draft, body: b.BudgetSet, limits: Limits) -> Misfit:
    """Set new limits, none above what the parent lets a child use; the amounts used so far are kept."""
    try:
        warn_at = amount_of(body.warn_at)
        if body.on_exceed not in _ACTIONS or warn_at > 1:
            raise ValueError("no such budget")
        run, day = amounts_in(body.limits), amounts_in(body.day_limits)
    except AMOUNT_ERRORS as exc:
        return illegal(f"no such budget: {exc}")
    budget = draft.budget or Budget()
    run |= {name: min(run.get(name, amount), amount) for name, amount in budget.granted.items()}
    draft.budget = replace(budget, limits=run, day_limits=day, warn_at=warn_at, on_exceed=body.on_exceed, noted=())
    return None


def _record_budget_event(draft: Draft, body: b.BudgetNoted, limits: Limits) -> Misfit:
    budget = draft.budget
    if budget is None:
        return illegal("there is no budget")
    if body.kind == "raised":
        try:
            raised = amounts_in(orjson.dumps({body.dimension: body.limit}).decode())
        except AMOUNT_ERRORS as exc:
            return illegal(f"no such limit: {exc}")
        if body.scope == "day":
            budget = replace(budget, noted=(), day_limits={**budget.day_limits, **raised})
        else:
            granted = {name: raised.get(name, amount) for name, amount in budget.granted.items()}
            budget = replace(budget, noted=(), limits={**budget.limits, **raised}, granted=granted)
    elif body.kind == "refunded" and body.key is not None:
        budget = budget.reserve(body.key, {})
    else:
        note = f"{body.kind} {body.dimension} {body.scope}"[:80]
        budget = replace(budget, noted=tuple(dict.fromkeys((*budget.noted[-31:], note))))
    draft.budget = budget
    return None


# --- content writes ---------------------------------------------------------------------------------------------------
def record_write(draft: Draft, key: str, body: b.Body, limits: Limits, write: Rule) -> Misfit:
    """Apply a content write of an agent's code and record it as a call under its key."""
    position = write_position(key)
    if position is None or position < 1 or key in draft.calls:
        return illegal(f"{key[:80]} is no place of a write")
    call = Call("write", position, write_digest(body), "succeeded", 1, draft.call_seq + 1)
    width = call_width(key, call)
    misfit = too_big(draft.content_bytes + width, limits)
    if misfit is None:
        draft.content_bytes += width
        misfit = write(draft, body, limits)
        if misfit is None:
            draft.calls.put(key, call)
            draft.owner_deaths = 0
        else:
            draft.content_bytes -= width
    return misfit


CALL_RULES: Mapping[type[b.Body], Rule] = {
    b.AgentStarted: _start_agent,
    b.StepStarted: _start_step,
    b.StepEnded: _end_step,
    b.DecisionStarted: _start_decision,
    b.DecisionMade: _end_decision,
    b.Sampled: _sample,
    b.TimerSet: _set_timer,
    b.TimerFired: _fire_timer,
    b.GateOpened: _open_gate,
    b.GateResolved: _resolve_gate,
    b.Received: _receive,
    b.AnswerRefused: _refuse_answer,
    b.ChildSpawned: _spawn,
    b.ChildEnded: _end_child,
    b.CallsSetAside: _set_aside,
    b.CancelAccepted: _accept_cancel,
    b.PatchMarked: _mark_patch,
    b.Diverged: _diverge,
    b.TurnEnded: _end_turn,
    b.BudgetSet: _set_budget,
    b.BudgetNoted: _record_budget_event,
    **EFFECT_RULES,
}
