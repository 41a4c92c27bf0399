"""What an owner's entries do to the table of calls, to turns, obligations and budgets of their process.

A start makes its call or begins its next attempt; an end ends the attempt it names; anything else does not fit. Like
the rules of content, each gives None, or why the body does not fit and leaves the draft as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson

from seekpoint.schemas import bodies as b
from seekpoint.schemas.budget import Budget, amounts_in
from seekpoint.schemas.calls import IN_DOUBT, AgentRun, Call, Obligation, write_digest, write_position
from seekpoint.schemas.content import Misfit, Rule, too_big
from seekpoint.schemas.lifecycle import Lifecycle
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.state import Draft, frame_of
from seekpoint.schemas.widths import call_width, frame_width, item_width, obligation_width, text_width

__all__ = ["CALL_RULES", "note_write", "open_effect"]


def _illegal(detail: str) -> Misfit:
    return "illegal_call", detail


# --- the table --------------------------------------------------------------------------------------------------------
def _put(draft: Draft, key: str, call: Call, limits: Limits, then: Callable[[], None] | None = None) -> Misfit:
    """Put ``call`` under ``key`` if the state has room for it."""
    grown = draft.content_bytes + call_width(key, call)
    old = draft.calls.get(key)
    if old is not None:
        grown -= call_width(key, old)
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.calls.put(key, call)
        draft.content_bytes = grown
        if then is not None:
            then()
    return misfit


def _begin(draft: Draft, body: Any, limits: Limits, kind: str, status: str, facts: dict[str, Any]) -> Misfit:
    """A call's first attempt, or its next one. A second start of what is answered does not fit."""
    misfit, attempt = _may_begin(draft, body, kind), getattr(body, "attempt", 1)
    if misfit is not None:
        return misfit
    call = Call(kind, body.position, body.digest, status, attempt, draft.seq + 1, None, None, _facts(facts))
    budget = _reserved(draft.budget, body)
    if budget is _WRONG:
        return _illegal("an estimate has amounts by dimension")
    misfit = _put(draft, body.key, call, limits)
    if misfit is None and budget is not None:
        draft.budget = budget
    return misfit


def _may_begin(draft: Draft, body: Any, kind: str) -> Misfit:
    old, attempt = draft.calls.get(body.key), getattr(body, "attempt", 1)
    if not body.key or body.position < 0 or attempt < 1:
        return _illegal("a call has a key, a position and an attempt")
    if old is not None and not _begins_again(old, kind, body.digest, attempt):
        return _illegal(f"{body.key[:80]} does not begin again so")
    if kind in _COUNTED and attempt != (1 if old is None else old.attempt + 1):
        return _illegal(f"attempt {attempt} of {body.key[:80]} is not the next one")
    return None


_COUNTED = ("step", "decision")
"""Calls each attempt of which is journaled. An effect's may have been a former owner's, and count for nobody."""


def _begins_again(old: Call, kind: str, digest: str, attempt: int) -> bool:
    is_open = old.status == "started" or old.status in IN_DOUBT
    return old.kind == kind and old.digest == digest and is_open and attempt > old.attempt


def _facts(facts: dict[str, Any]) -> b.Json | None:
    kept = {name: value for name, value in facts.items() if value is not None}
    return orjson.dumps(kept).decode() if kept else None


def _answered(draft: Draft, body: Any, kind: str, output: str, limits: Limits) -> Misfit:
    """The end of an attempt: ``outcome`` succeeded, failed, or retry."""
    old = draft.calls.get(body.key)
    if old is None or old.kind != kind or old.status != "started" or old.attempt != body.attempt:
        return _illegal(f"{body.key[:80]} is not under way so")
    if old.error is not None:
        return _illegal(f"{body.key[:80]} waits for its next attempt")  # this one has ended: once
    return _charged(draft, body, _ended(old, body, output, draft.seq + 1), limits, draft.budget)


def _ended(call: Call, body: Any, output: str, seq: int) -> Call | None:
    """``call`` once its attempt ended; None for an outcome that no call has."""
    if body.outcome == "succeeded":
        return call._replace(status="succeeded", seq=seq, output=output, error=None, detail=None)
    if body.outcome == "failed":
        return call._replace(status="failed", seq=seq, error=body.error, detail=None)
    if body.outcome == "retry":
        facts = _facts({"retry_at_us": body.retry_at_us})
        return call._replace(seq=seq, error=body.error or "null", detail=facts)
    return None


def _charged(draft: Draft, body: Any, call: Call | None, limits: Limits, budget: Budget | None) -> Misfit:
    """Put ``call``, which ended, and charge what it used on ``budget``."""
    if call is None:
        return _illegal(f"no call ends {body.outcome[:40]}")
    try:
        budget = budget and _charge(budget, body, call)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        return _illegal("a usage has amounts by name")
    misfit = _put(draft, body.key, call, limits)
    if misfit is None:
        draft.budget = budget
    return misfit


# --- steps, decisions, samples ----------------------------------------------------------------------------------------
def _start_step(draft: Draft, body: b.StepStarted, limits: Limits) -> Misfit:
    return _begin(draft, body, limits, "step", "started", {})


def _end_step(draft: Draft, body: b.StepEnded, limits: Limits) -> Misfit:
    if body.position is None:
        return _answered(draft, body, "step", body.output, limits)
    return _whole_step(draft, body, limits)


def _whole_step(draft: Draft, body: b.StepEnded, limits: Limits) -> Misfit:
    """An attempt whose start and end are one entry: what two would have done, or nothing."""
    began = body.began
    assert began is not None
    misfit = _may_begin(draft, began, "step")
    if misfit is not None:
        return misfit
    budget = _reserved(draft.budget, began)
    if budget is _WRONG:
        return _illegal("an estimate has amounts by dimension")
    call = Call("step", began.position, began.digest, "started", body.attempt, draft.seq + 1)
    ended = _ended(call, body, body.output, draft.seq + 1)
    return _charged(draft, body, ended, limits, budget or draft.budget)


def _start_decision(draft: Draft, body: b.DecisionStarted, limits: Limits) -> Misfit:
    return _begin(draft, body, limits, "decision", "started", {"policy": body.policy})


def _end_decision(draft: Draft, body: b.DecisionMade, limits: Limits) -> Misfit:
    return _answered(draft, body, "decision", body.response, limits)


def _sample(draft: Draft, body: b.Sampled, limits: Limits) -> Misfit:
    if not body.key or body.key in draft.calls or body.position < 1:
        return _illegal(f"{body.key[:80]} was sampled before")
    call = Call("sample", body.position, body.digest, "succeeded", 1, draft.seq + 1, body.value)
    return _put(draft, body.key, call, limits)


# --- timers, gates, children ------------------------------------------------------------------------------------------
def _set_timer(draft: Draft, body: b.TimerSet, limits: Limits) -> Misfit:
    return _begin(draft, body, limits, "timer", "started", {"fires_at_us": body.fires_at_us})


def _fire_timer(draft: Draft, body: b.TimerFired, limits: Limits) -> Misfit:
    call = draft.calls.get(body.key)
    due = None if call is None else call.facts.get("fires_at_us")
    if type(due) is int and body.fired_at_us < due:
        return _illegal(f"{body.key[:80]} is not due yet")
    return _close(draft, body.key, "timer", "succeeded", "null", None, limits)


def _open_gate(draft: Draft, body: b.GateOpened, limits: Limits) -> Misfit:
    facts = {"name": body.name, "deadline_us": body.deadline_us}
    if body.prompt != "null":
        facts["prompt"] = body.prompt
    return _begin(draft, body, limits, "gate", "started", facts)


def _resolve_gate(draft: Draft, body: b.GateResolved, limits: Limits) -> Misfit:
    if body.outcome not in ("approved", "denied", "signalled", "timed_out"):
        return _illegal(f"no gate is {body.outcome[:40]}")
    answer = {"outcome": body.outcome, "payload": body.payload, "actor": body.actor, "reason": body.reason}
    text = orjson.dumps(answer).decode()
    misfit = _close(draft, body.key, "gate", "succeeded", text, None, limits)
    if misfit is None:
        _take_mail(draft, body.external_id)
    return misfit


def _spawn(draft: Draft, body: b.ChildSpawned, limits: Limits) -> Misfit:
    facts = {"child_id": body.child_id, "agent": body.agent, "version": body.version}
    return _begin(draft, body, limits, "child", "started", facts)


def _end_child(draft: Draft, body: b.ChildEnded, limits: Limits) -> Misfit:
    if body.outcome not in ("succeeded", "failed"):
        return _illegal(f"no child ends {body.outcome[:40]}")
    return _close(draft, body.key, "child", body.outcome, body.result, body.error, limits)


def _close(
    draft: Draft, key: str, kind: str, status: str, output: b.Json, error: b.Json | None, limits: Limits
) -> Misfit:
    old = draft.calls.get(key)
    if old is None or old.kind != kind or old.status != "started":
        return _illegal(f"{key[:80]} is not under way so")
    return _put(draft, key, old._replace(status=status, seq=draft.seq + 1, output=output, error=error), limits)


def _take_mail(draft: Draft, external_id: bytes | None) -> None:
    item = None if external_id is None else draft.mailbox.pop(external_id, None)
    if item is not None:
        draft.mailbox_bytes -= item_width(item)


# --- effects ----------------------------------------------------------------------------------------------------------
_SEMANTICS = ("idempotent", "at_most_once", "observe_only")
_OUTCOMES = ("succeeded", "failed", "unknown", "stuck")
_SETTLERS = ("call", "reconciler", "evidence", "person", "dispatcher")


def _intend(draft: Draft, body: b.EffectIntended, limits: Limits) -> Misfit:
    if body.semantics not in _SEMANTICS:
        return _illegal(f"no effect is {body.semantics[:40]}")
    facts = {
        "semantics": body.semantics, "connector": body.connector, "business_key": body.business_key,
        "idempotency_key": body.idempotency_key, "epoch": draft.epoch, "name": body.name,
        "compensates": body.compensates, "irreversible": body.irreversible or None,
    }  # fmt: skip
    return _begin(draft, body, limits, "effect", "pending", facts)


def _settle(draft: Draft, body: b.EffectSettled, limits: Limits) -> Misfit:
    old = open_effect(draft, body.key)
    if old is None or body.outcome not in _OUTCOMES or body.settled_by not in _SETTLERS:
        return _illegal(f"{body.key[:80]} is no effect in doubt")
    if body.settled_by == "call" and body.attempt != old.attempt:
        return _illegal(f"attempt {body.attempt} of {body.key[:80]} is not the present one")
    call = old._replace(
        status=body.outcome, seq=draft.seq + 1,
        output=body.output if body.outcome == "succeeded" else None,
        error=body.error,  # of one that succeeded too: an output that could not be journaled
    )  # fmt: skip
    misfit = _charged(draft, body, call, limits, draft.budget)
    if misfit is None:
        _take_mail(draft, body.external_id)
    return misfit


def open_effect(draft: Draft, key: str) -> Call | None:
    """The effect ``key`` if it is not settled: pending, unknown, inherited, or stuck until a person tells."""
    call = draft.calls.get(key)
    return call if call is not None and call.kind == "effect" and call.status not in ("succeeded", "failed") else None


def _owe(draft: Draft, body: b.ObligationRegistered, limits: Limits) -> Misfit:
    call = draft.calls.get(body.key)
    if call is None or call.kind != "effect" or any(one.key == body.key for one in draft.obligations):
        return _illegal(f"{body.key[:80]} is no effect that has to be undone")
    return _oblige(draft, (*draft.obligations, Obligation(body.key, body.name, body.arguments)), limits)


def _pay(draft: Draft, body: b.ObligationSettled, limits: Limits) -> Misfit:
    found = [one for one in draft.obligations if one.key == body.key]
    if not found or body.outcome not in ("done", "dropped", "stuck"):
        return _illegal(f"{body.key[:80]} is nothing that has to be undone")
    if body.outcome == "stuck":
        rest = tuple(replace(one, status="stuck") if one.key == body.key else one for one in draft.obligations)
    else:
        rest = tuple(one for one in draft.obligations if one.key != body.key)
    return _oblige(draft, rest, limits)


def _oblige(draft: Draft, obligations: tuple[Obligation, ...], limits: Limits) -> Misfit:
    grown = draft.content_bytes + sum(map(obligation_width, obligations))
    grown -= sum(map(obligation_width, draft.obligations))
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.obligations, draft.content_bytes = obligations, grown
    return misfit


# --- the run ----------------------------------------------------------------------------------------------------------
def _start_agent(draft: Draft, body: b.AgentStarted, limits: Limits) -> Misfit:
    """A process that begins so is running: one entry, not three."""
    if draft.agent is not None:
        return _illegal("an agent runs as the process already")
    frame = draft.start_frame or frame_of(draft)  # a fork's code runs from where its parent's began
    grown = draft.content_bytes + text_width(body.input) + frame_width(frame) - frame_width(draft.start_frame)
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.agent = AgentRun(body.agent[:200], body.version[:200], body.definition[:200], body.input)
        draft.start_frame, draft.content_bytes = frame, grown
        if draft.lifecycle in _BEGINNING:
            draft.lifecycle = Lifecycle.RUNNING
    return misfit


_BEGINNING = frozenset({Lifecycle.CREATED, Lifecycle.STARTING})


def _end_turn(draft: Draft, body: b.TurnEnded, limits: Limits) -> Misfit:
    """The turn's calls leave the state, but effects of which nobody knows whether they happened."""
    if body.number != draft.turn + 1:
        return _illegal(f"turn {draft.turn + 1} has to end next")
    frame, made = frame_of(draft), draft.calls.of_turn(body.number)
    stays = {key: call for key, call in made.items() if _stays(call)}
    grown = draft.content_bytes + frame_width(frame) - frame_width(draft.turn_frame)
    grown -= sum(call_width(key, call) for key, call in made.items() if key not in stays)
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.calls.end_turn(body.number, stays)
        draft.turn, draft.turn_frame, draft.content_bytes = body.number, frame, grown
    return misfit


def _stays(call: Call) -> bool:
    return call.kind == "effect" and call.status not in ("succeeded", "failed")


def _accept_cancel(draft: Draft, body: b.CancelAccepted, limits: Limits) -> Misfit:
    if draft.cancelled is None:
        draft.cancelled = (body.reason or "")[:200]
    _take_mail(draft, body.external_id)
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
_WRONG = Budget(on_exceed="wrong")
_ACTIONS = ("pause", "fail", "escalate")


def _set_budget(draft: Draft, body: b.BudgetSet, limits: Limits) -> Misfit:
    """New limits; what was used stays used."""
    try:
        warn_at = Decimal(body.warn_at)
        if body.on_exceed not in _ACTIONS or not 0 <= warn_at <= 1:
            raise ValueError("no such budget")
        whole, day = amounts_in(body.limits), amounts_in(body.day_limits)
    except (ValueError, LookupError, TypeError, ArithmeticError) as exc:
        return _illegal(f"no such budget: {exc}")
    budget = draft.budget or Budget()
    draft.budget = replace(budget, limits=whole, day_limits=day, warn_at=warn_at, on_exceed=body.on_exceed, noted=())
    return None


def _note_budget(draft: Draft, body: b.BudgetNoted, limits: Limits) -> Misfit:
    budget = draft.budget
    if budget is None:
        return _illegal("there is no budget")
    if body.kind == "raised":
        try:
            raised = amounts_in(orjson.dumps({body.dimension: body.limit}).decode())
        except (ValueError, LookupError, TypeError, ArithmeticError) as exc:
            return _illegal(f"no such limit: {exc}")
        if body.scope == "day":
            budget = replace(budget, noted=(), day_limits={**budget.day_limits, **raised})
        else:
            budget = replace(budget, noted=(), limits={**budget.limits, **raised})
    elif body.kind == "refunded" and body.key is not None:
        budget = budget.reserve(body.key, {})
    else:
        note = f"{body.kind} {body.dimension} {body.scope}"[:80]
        budget = replace(budget, noted=tuple(dict.fromkeys((*budget.noted[-31:], note))))
    draft.budget = budget
    return None


def _reserved(budget: Budget | None, body: Any) -> Budget | None:
    """``budget`` with the estimate of ``body`` kept; ``_WRONG`` for one that has no amounts."""
    estimate = getattr(body, "estimate", None)
    irreversible = getattr(body, "irreversible", False)
    if estimate is None and not irreversible:
        return budget
    try:
        amounts = amounts_in(estimate)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        return _WRONG
    if irreversible:
        amounts["irreversible_effects"] = Decimal(1)
    return None if budget is None else budget.reserve(body.key, amounts)


def _charge(budget: Budget, body: Any, call: Call) -> Budget:
    """What an end used: what it says, and what its kind implies. A failed effect gives its count back."""
    used = used_in(body)
    if call.kind == "decision":
        used.setdefault("model_calls", Decimal(1))
    if (
        call.kind == "effect"
        and call.status == "failed"
        and "irreversible_effects" in budget.reserved.get(body.key, {})
    ):
        used["irreversible_effects"] = Decimal(0)
    is_last = call.status not in ("started", "unknown", "stuck")
    return budget.charge(body.key, used, body.ended_at_us, is_last=is_last)


def used_in(body: Any) -> dict[str, Decimal]:
    """The amounts an end tells: tokens summed, a cost, its duration, and counts by dimension."""
    usage = {} if body.usage is None else orjson.loads(body.usage)
    used: dict[str, Decimal] = {"wall_s": Decimal(max(body.duration_us, 0)) / 1_000_000}
    if type(usage) is not dict:
        raise ValueError("a usage is an object")
    if type(usage.get("input_tokens")) is int and type(usage.get("output_tokens")) is int:
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        used["tokens"] = Decimal(sum(max(usage.get(name) or 0, 0) for name in names))
    counts = {name: usage[name] for name in ("tool_calls", "model_calls", "tokens") if name in usage}
    used |= amounts_in(orjson.dumps(counts).decode())
    if body.cost_usd is not None:
        used |= amounts_in(orjson.dumps({"usd": body.cost_usd}).decode())
    return used


# --- content writes ---------------------------------------------------------------------------------------------------
def note_write(draft: Draft, key: str, body: b.Body, limits: Limits, write: Rule) -> Misfit:
    """Apply a content write of an agent's code and remember it by its place."""
    position = write_position(key)
    if position is None or position < 1 or key in draft.calls:
        return _illegal(f"{key[:80]} is no place of a write")
    call = Call("write", position, write_digest(body), "succeeded", 1, draft.seq + 1)
    width = call_width(key, call)
    misfit = too_big(draft.content_bytes + width, limits)
    if misfit is None:
        draft.content_bytes += width
        misfit = write(draft, body, limits)
        if misfit is None:
            draft.calls.put(key, call)
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
    b.ChildSpawned: _spawn,
    b.ChildEnded: _end_child,
    b.EffectIntended: _intend,
    b.EffectSettled: _settle,
    b.ObligationRegistered: _owe,
    b.ObligationSettled: _pay,
    b.CancelAccepted: _accept_cancel,
    b.PatchMarked: _mark_patch,
    b.Diverged: _diverge,
    b.TurnEnded: _end_turn,
    b.BudgetSet: _set_budget,
    b.BudgetNoted: _note_budget,
}
