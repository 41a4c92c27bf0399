"""Read an effect's outcome from the mailbox: from a former owner, a dispatcher or a person. Pure.

The first outcome in the log counts. One with another idempotency key belongs to another effect (the same call, before a
rewind) and is skipped. So is one that settles nothing, or is not valid: anybody may write to the mailbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seekpoint.producers.durable.failures.recorded_failures import failure_text
from seekpoint.schemas.bodies import EffectVerdict, Json
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import EffectFailed, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.process_state import MailItem
from seekpoint.schemas.values.json_values import load

DISPATCHER = "dispatcher/"
"""The prefix of the actor in a dispatcher's verdict."""

OWNER = "owner/"
"""The prefix of the actor in the late outcome of an owner that was fenced."""

_NO_SECRETS = Settings()
"""The mailbox is in the journal already. The owner that takes an outcome out of it masks its secrets."""
_SETTLING = frozenset({"succeeded", "failed", "unknown", "stuck"})


class ExternalOutcome(FrozenStruct, frozen=True):
    """An outcome from outside the process, and the external entry that has it."""

    external_id: bytes
    outcome: str
    settled_by: str
    """``evidence``, ``person`` or ``dispatcher``."""
    output: Json = "null"
    error: Json | None = None


def external_outcome_for(
    mail: Iterable[MailItem], key: str, idempotency_key: str, *, status: str = "pending"
) -> ExternalOutcome | None:
    """Return the oldest outcome of the effect ``key`` that would change its ``status``; None if there is none."""
    found = (_outcome_in(item, idempotency_key) for item in mail if item.name == key)
    return next((one for one in found if one is not None and one.outcome != status), None)


def _outcome_in(item: MailItem, idempotency_key: str) -> ExternalOutcome | None:
    payload = _payload_of(item)
    outcome = payload.get("outcome")
    if outcome not in _SETTLING or (payload.get("idempotency_key") or idempotency_key) != idempotency_key:
        return None
    output = payload.get("output") or "null"
    if item.kind == "evidence":
        # A former owner that does not know the outcome settles nothing.
        known = outcome in ("succeeded", "failed")
        return ExternalOutcome(item.id, outcome, "evidence", output, payload.get("error")) if known else None
    if outcome == "succeeded":
        return ExternalOutcome(item.id, outcome, _settled_by(item), output)
    return ExternalOutcome(item.id, outcome, _settled_by(item), error=_error(item, payload))


def _payload_of(item: MailItem) -> dict[str, Any]:
    if item.kind not in ("evidence", EffectVerdict.KIND):
        return {}
    try:
        payload = load(item.payload_json)
    except SeekpointError:
        return {}
    return payload if isinstance(payload, dict) else {}


def _settled_by(item: MailItem) -> str:
    actor = item.actor or ""
    if actor.startswith(OWNER):
        return "evidence"
    return "dispatcher" if actor.startswith(DISPATCHER) else "person"


def _error(item: MailItem, payload: dict[str, Any]) -> Json:
    """Return the failure that a dispatcher or a former owner recorded, else one with the reason that was given."""
    if _is_failure(payload.get("error")):
        return str(payload["error"])
    message = payload.get("reason") or f"{item.actor or 'somebody'} gave no reason"
    return failure_text(EffectFailed(str(message), settled_by=_settled_by(item), actor=item.actor), _NO_SECRETS)


def _is_failure(text: Any) -> bool:
    try:
        failure = load(text) if isinstance(text, str) else None
    except SeekpointError:
        return False
    return isinstance(failure, dict) and isinstance(failure.get("type"), str) and "message" in failure
