"""The steps that the rules of all kinds of calls share: begin a call, and end an attempt of it.

Each returns None, or the reason why the body does not fit; then the draft is unchanged.
"""

from __future__ import annotations

from typing import Any

import orjson
from msgspec.structs import replace

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.charges import AMOUNT_ERRORS, charge, reserve
from seekpoint.schemas.folding.content_rules import Misfit, too_big
from seekpoint.schemas.state.budget_sums import Budget
from seekpoint.schemas.state.calls import IN_DOUBT, Call, call_width, is_open_to_requests
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.state.state_json import LAST_CALL_CHARS_MAX
from seekpoint.schemas.state.state_values import size_of

HASHED_KEY_PREFIX = "seekpoint-sha256:"
"""The beginning of an idempotency key that is the hash of a call's identity, since that is no short ASCII text."""


def illegal(detail: str) -> Misfit:
    """Return the misfit of a body that does not fit its call."""
    return "illegal_call", detail


def begin_wait(draft: Draft, body: Any, limits: Limits, kind: str, facts: dict[str, Any]) -> Misfit:
    """Begin a call that only waits, and note the time of its entry for people."""
    return begin_call(draft, body, limits, kind, "started", {**facts, "since_us": draft.updated_us or None})


def begin_call(draft: Draft, body: Any, limits: Limits, kind: str, status: str, facts: dict[str, Any]) -> Misfit:
    """Begin a call's first or next attempt. A call that has its answer cannot begin again."""
    attempt = getattr(body, "attempt", 1)
    misfit = _may_begin(draft, kind, body.key, body.position, body.digest, attempt)
    if misfit is not None:
        return misfit
    call = Call(kind, body.position, body.digest, status, attempt, draft.call_seq + 1, None, None, _facts(facts))
    try:
        budget = reserve(draft.budget, body)
    except AMOUNT_ERRORS:
        return illegal("an estimate has amounts by dimension")
    misfit = put_call(draft, body.key, call, limits)
    if misfit is None and budget is not None:
        draft.budget = budget
    return misfit


def _may_begin(draft: Draft, kind: str, key: str, position: int, digest: str, attempt: int) -> Misfit:
    if not key or position < 0 or attempt < 1:
        return illegal("a call has a key, a position and an attempt")
    old = draft.calls.get(key)
    if old is not None and not _begins_again(old, kind, digest, attempt):
        return illegal(f"{key[:80]} does not begin again so")
    if kind in _COUNTED and attempt != (1 if old is None else old.attempt + 1):
        return illegal(f"attempt {attempt} of {key[:80]} is not the next one")
    return None


_COUNTED = ("step", "decision")
"""The kinds of calls whose attempts are consecutive. Those of an effect may have gaps: a former owner made some."""


def _begins_again(old: Call, kind: str, digest: str, attempt: int) -> bool:
    is_open = old.status == "started" or old.status in IN_DOUBT
    is_asked_so = old.digest == digest or is_open_to_requests(old, kind)
    return old.kind == kind and is_asked_so and is_open and attempt > old.attempt


def key_of_step(body: b.StepStarted | b.StepEnded) -> dict[str, Any]:
    """Return the fact of a step's idempotency key where it is a hash: otherwise it follows from the call's key."""
    key = body.idempotency_key
    return {"idempotency_key": key} if key is not None and key.startswith(HASHED_KEY_PREFIX) else {}


def hashed_key(call: Call) -> dict[str, Any]:
    """Return the fact of a hashed idempotency key, which a call keeps until it has its answer."""
    if call.kind != "step" or call.detail is None or "idempotency_key" not in call.detail:
        return {}
    return {"idempotency_key": call.facts["idempotency_key"]}


def _facts(facts: dict[str, Any]) -> b.Json | None:
    known = {name: value for name, value in facts.items() if value is not None}
    return orjson.dumps(known).decode() if known else None


def end_attempt(draft: Draft, body: Any, kind: str, output: str, limits: Limits) -> Misfit:
    """End an attempt by its ``outcome``: succeeded, failed, or retry."""
    old = draft.calls.get(body.key)
    if old is None or old.kind != kind or old.status != "started" or old.attempt != body.attempt:
        return illegal(f"{body.key[:80]} is not under way so")
    if old.error is not None:
        return illegal(f"{body.key[:80]} waits for its next attempt")
    return charge_end(draft, body, _ended(old, body, output, draft.call_seq + 1), limits, draft.budget)


def _ended(call: Call, body: Any, output: str, seq: int) -> Call | None:
    """Return ``call`` after the end of its attempt; None for an unknown outcome."""
    if body.outcome == "succeeded":
        return Call(call.kind, call.position, call.digest, "succeeded", call.attempt, seq, output)
    if body.outcome == "failed":
        partial, facts = None if output == "null" else output, _facts(hashed_key(call))  # of a stream that broke off
        return replace(call, status="failed", seq=seq, output=partial, error=body.error, detail=facts)
    if body.outcome == "retry":
        facts = _facts({**hashed_key(call), "retry_at_us": body.retry_at_us})
        return replace(call, seq=seq, error=body.error or "null", detail=facts)
    return None


def whole_attempt(draft: Draft, body: b.StepEnded, limits: Limits) -> Misfit:
    """Begin and end an attempt whose start and end are one entry: the result is that of two entries, or nothing."""
    position, digest = body.position, body.digest or ""
    assert position is not None
    misfit = _may_begin(draft, "step", body.key, position, digest, body.attempt)
    if misfit is not None:
        return misfit
    try:
        budget = reserve(draft.budget, body)
    except AMOUNT_ERRORS:
        return illegal("an estimate has amounts by dimension")
    hashed = key_of_step(body)
    detail = _facts(hashed) if hashed else None  # nearly no step has one, and each pays for what is done here
    call = Call("step", position, digest, "started", body.attempt, draft.call_seq + 1, None, None, detail)
    ended = _ended(call, body, body.output, draft.call_seq + 1)
    return charge_end(draft, body, ended, limits, budget or draft.budget)


def close_call(
    draft: Draft, key: str, kind: str, status: str, output: b.Json, error: b.Json | None, limits: Limits,
    detail: b.Json | None = None,
) -> Misfit:  # fmt: skip
    """End a call that has one attempt. ``detail``: its facts, if they change."""
    old = draft.calls.get(key)
    if old is None or old.kind != kind or old.status != "started":
        return illegal(f"{key[:80]} is not under way so")
    detail, seq = detail or old.detail, draft.call_seq + 1
    call = replace(old, status=status, seq=seq, output=output, error=error, detail=detail)
    return put_call(draft, key, call, limits)


def charge_end(draft: Draft, body: Any, call: Call | None, limits: Limits, budget: Budget | None) -> Misfit:
    """Store ``call``, which ended, and charge its usage to ``budget``; without one, begin to count if it has some."""
    if call is None:
        return illegal(f"no call ends {body.outcome[:40]}")
    if budget is None and (body.usage is not None or body.cost_usd is not None or call.kind == "decision"):
        budget = Budget()
    try:
        budget = budget and charge(budget, body, call)
    except AMOUNT_ERRORS:
        return illegal("a usage has amounts by name")
    misfit = put_call(draft, body.key, call, limits)
    if misfit is None:
        draft.budget = budget
    return misfit


def put_call(draft: Draft, key: str, call: Call, limits: Limits) -> Misfit:
    """Store ``call`` under ``key`` if the state has room for it."""
    calls = draft.calls
    grown = draft.content_bytes + call_width(key, call)
    old = calls.get(key)
    if old is not None:
        grown -= call_width(key, old)
    misfit = too_big(grown, limits)
    if misfit is None:
        calls.put(key, call)
        draft.content_bytes = grown
        draft.last_call = key[:LAST_CALL_CHARS_MAX]
        if draft.owner_deaths and (call.status in _ENDED or (old is None and call.kind not in _WITH_BODY)):
            draft.owner_deaths = 0
    return misfit


_ENDED = frozenset({"succeeded", "failed"})
_WITH_BODY = frozenset({"step", "decision", "effect"})
"""The kinds of calls whose start is no progress: their body may be what ends the owners."""


def take_mail(draft: Draft, external_id: bytes | None) -> None:
    """Remove the item with ``external_id`` from the mailbox, if it is there."""
    item = None if external_id is None else draft.mailbox.pop(external_id, None)
    if item is not None:
        draft.mailbox_bytes -= size_of(item)
