"""What the mailbox says of an effect: a former owner's late outcome, a dispatcher's or a person's verdict. Pure.

The first one in the log counts. A verdict that names another idempotency key is of another effect (the same call, of
before a rewind) and is passed over; so is one that settles nothing, or is no outcome at all: anybody may write one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seekpoint.producers.durable.failures.recorded_failures import failure_text
from seekpoint.schemas.bodies import EffectVerdict, Json
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import EffectFailed, SeekpointError
from seekpoint.schemas.state.process_state import MailItem
from seekpoint.schemas.values.json_values import load

__all__ = ["DISPATCHER", "OWNER", "ExternalOutcome", "word_for"]

DISPATCHER = "dispatcher/"
"""What the actor of a dispatcher's verdict begins with."""

OWNER = "owner/"
"""What the actor of a fenced owner's word begins with, which comes too late to be an entry of its own."""

_NO_SECRETS = Settings()
"""The mailbox is in the journal already; the owner that takes a word out of it scrubs it."""
_SETTLING = frozenset({"succeeded", "failed", "unknown", "stuck"})


@dataclass(frozen=True, slots=True)
class ExternalOutcome:
    """An outcome that somebody else knows of, and the external entry that says so."""

    external_id: bytes
    outcome: str
    settled_by: str
    """``evidence``, ``person`` or ``dispatcher``."""
    output: Json = "null"
    error: Json | None = None


def word_for(
    mail: Iterable[MailItem], key: str, idempotency_key: str, *, status: str = "pending"
) -> ExternalOutcome | None:
    """The oldest word on the effect ``key`` that would change its ``status``; None if there is none."""
    words = (_word(item, idempotency_key) for item in mail if item.name == key)
    return next((word for word in words if word is not None and word.outcome != status), None)


def _word(item: MailItem, idempotency_key: str) -> ExternalOutcome | None:
    told = _told(item)
    outcome = told.get("outcome")
    if outcome not in _SETTLING or (told.get("idempotency_key") or idempotency_key) != idempotency_key:
        return None
    output = told.get("output") or "null"
    if item.kind == "evidence":
        # What its own owner could not tell of is no news.
        known = outcome in ("succeeded", "failed")
        return ExternalOutcome(item.id, outcome, "evidence", output, told.get("error")) if known else None
    if outcome == "succeeded":
        return ExternalOutcome(item.id, outcome, _by(item), output)
    return ExternalOutcome(item.id, outcome, _by(item), error=_error(item, told))


def _told(item: MailItem) -> dict[str, Any]:
    if item.kind not in ("evidence", EffectVerdict.KIND):
        return {}
    try:
        told = load(item.payload_json)
    except SeekpointError:
        return {}
    return told if isinstance(told, dict) else {}


def _by(item: MailItem) -> str:
    actor = item.actor or ""
    if actor.startswith(OWNER):
        return "evidence"
    return "dispatcher" if actor.startswith(DISPATCHER) else "person"


def _error(item: MailItem, told: dict[str, Any]) -> Json:
    """The failure that a dispatcher or a former owner saw, as it was; else the reason that was given."""
    if _is_failure(told.get("error")):
        return str(told["error"])
    said = told.get("reason") or f"{item.actor or 'somebody'} says so, without a reason"
    return failure_text(EffectFailed(str(said), settled_by=_by(item), actor=item.actor), _NO_SECRETS)


def _is_failure(text: Any) -> bool:
    try:
        failure = load(text) if isinstance(text, str) else None
    except SeekpointError:
        return False
    return isinstance(failure, dict) and isinstance(failure.get("type"), str) and "message" in failure
