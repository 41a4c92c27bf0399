"""The fold's rules for effects and for the obligations that effects leave."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.attempt_rules import begin_call, charge_end, illegal, take_mail
from seekpoint.schemas.folding.content_rules import Misfit, Rule, too_big
from seekpoint.schemas.state.calls import Call, Obligation, call_width, is_compensated, revoked
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.state.state_values import size_of

_SEMANTICS = ("idempotent", "at_most_once", "observe_only")
_OUTCOMES = ("succeeded", "failed", "unknown", "stuck")
_SETTLERS = ("call", "reconciler", "evidence", "person", "dispatcher")


def _intend(draft: Draft, body: b.EffectIntended, limits: Limits) -> Misfit:
    if body.semantics not in _SEMANTICS:
        return illegal(f"no effect is {body.semantics[:40]}")
    facts = {
        "semantics": body.semantics, "connector": body.connector, "business_key": body.business_key,
        "idempotency_key": body.idempotency_key, "epoch": draft.epoch, "name": body.name,
        "compensates": body.compensates, "irreversible": body.irreversible or None,
    }  # fmt: skip
    old = draft.calls.get(body.key)
    if old is not None:  # of an effect that was set aside: it has all its attempts again
        facts["attempts_before"] = old.facts.get("attempts_before")
    return begin_call(draft, body, limits, "effect", "pending", facts)


def _settle(draft: Draft, body: b.EffectSettled, limits: Limits) -> Misfit:
    old = open_effect(draft, body.key)
    if old is None or body.outcome not in _OUTCOMES or body.settled_by not in _SETTLERS:
        return illegal(f"{body.key[:80]} is no effect in doubt")
    if body.settled_by == "call" and body.attempt != old.attempt:
        return illegal(f"attempt {body.attempt} of {body.key[:80]} is not the present one")
    call = replace(old,
        status=body.outcome, seq=draft.call_seq + 1,
        output=body.output if body.outcome == "succeeded" else None,
        error=body.error,  # also of a success whose output could not be journaled
    )  # fmt: skip
    misfit = charge_end(draft, body, call, limits, draft.budget)
    if misfit is None:
        take_mail(draft, body.external_id)
    return misfit


def open_effect(draft: Draft, key: str) -> Call | None:
    """Return the effect ``key`` if it is not settled: pending, unknown, inherited, or stuck."""
    call = draft.calls.get(key)
    return call if call is not None and call.kind == "effect" and call.status not in ("succeeded", "failed") else None


def _register_obligation(draft: Draft, body: b.ObligationRegistered, limits: Limits) -> Misfit:
    call = draft.calls.get(body.key)
    if call is None or call.kind != "effect" or any(one.key == body.key for one in draft.obligations):
        return illegal(f"{body.key[:80]} is no effect that has to be undone")
    return _set_obligations(
        draft, (*draft.obligations, Obligation(body.key, body.name, body.arguments, "open")), limits
    )


def _settle_obligation(draft: Draft, body: b.ObligationSettled, limits: Limits) -> Misfit:
    found = [one for one in draft.obligations if one.key == body.key]
    if not found or body.outcome not in ("done", "dropped", "stuck"):
        return illegal(f"{body.key[:80]} is nothing that has to be undone")
    if body.outcome == "stuck":
        rest = tuple(replace(one, status="stuck") if one.key == body.key else one for one in draft.obligations)
    else:
        rest = tuple(one for one in draft.obligations if one.key != body.key)
    return _set_obligations(draft, rest, limits)


def _set_obligations(draft: Draft, obligations: tuple[Obligation, ...], limits: Limits) -> Misfit:
    grown = draft.content_bytes + sum(map(size_of, obligations))
    grown -= sum(map(size_of, draft.obligations))
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.obligations, draft.content_bytes = obligations, grown
    return misfit


def revoke(draft: Draft, body: b.EffectRevoked, at_us: int, limits: Limits) -> bool:
    """Note that what the effect did was undone outside; return False, and change nothing, if it does not fit.

    The record stays, since it answers the code. The obligation stays as a revoked one until the owner drops it: an
    entry about it that the owner has sent meanwhile fits all the same.
    """
    call, owed = draft.calls.get(body.key), [one for one in draft.obligations if one.key == body.key]
    if call is not None:
        is_meant = body.idempotency_key in ("", call.facts.get("idempotency_key"))
        if call.kind != "effect" or call.status != "succeeded" or not is_meant or is_compensated(body.key, draft.calls):
            return False
        marked = revoked(call, at_us)
        grown = draft.content_bytes + call_width(body.key, marked) - call_width(body.key, call)
        if too_big(grown + len("revoked") * bool(owed), limits) is not None:
            return False
        draft.calls.put(body.key, marked)
        draft.content_bytes = grown
    rest = tuple(replace(one, status="revoked") if one.key == body.key else one for one in draft.obligations)
    return not owed or _set_obligations(draft, rest, limits) is None


EFFECT_RULES: Mapping[type[b.Body], Rule] = {
    b.EffectIntended: _intend,
    b.EffectSettled: _settle,
    b.ObligationRegistered: _register_obligation,
    b.ObligationSettled: _settle_obligation,
}
