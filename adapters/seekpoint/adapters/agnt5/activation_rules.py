"""The rules of activations: what a call may do to a record. Pure: they read and write nothing.

    (nothing) -> ACTIVE -> COMPLETED | FAILED | RETRY_READY | SUSPENDED | UNKNOWN_OUTCOME
    RETRY_READY, SUSPENDED, an ACTIVE attempt that is not under way any more -> ACTIVE, as the next attempt
    a cancelled run: whatever begins -> CANCELLED

An attempt is under way as long as its lease is the run's newest one and its owner owns the process. Only the holder of
the newest attempt and its fence token ends it, and the first end counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agnt5.activation import ActivationDecisionKind as Kind
from agnt5.activation import ActivationKind, BeginActivationRequest
from agnt5.activation import ActivationRecoveryPolicy as Policy
from agnt5.exceptions import ActivationError, ActivationErrorCode

from seekpoint.adapters.agnt5.activation_records import Activation, Lease, Status, new_activation, payload_of

__all__ = [
    "CERTAINTIES",
    "REPEATS",
    "Begun",
    "OwnerFacts",
    "begin",
    "check_holder",
    "check_request",
    "ended_before",
    "failed_status",
    "has_failed",
    "refusal",
]

Code = ActivationErrorCode
INTERRUPTED = "INTERRUPTED"
_SHA256_BYTES = 32
CERTAINTIES = ("NO_EFFECT", "EFFECT_COMMITTED", "UNKNOWN")
REPEATS = frozenset({Policy.IDEMPOTENT_RETRY, Policy.DURABLE_STEPS})
_REPEATS = frozenset(policy.name for policy in REPEATS)
"""The policies under which an attempt that was interrupted is made again."""
_ENDED_BADLY = frozenset({Status.FAILED, Status.RETRY_READY, Status.UNKNOWN_OUTCOME})
_CODES = {
    Status.CANCELLED: Code.CANCELLED,
    Status.UNKNOWN_OUTCOME: Code.UNKNOWN_OUTCOME,
}


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """The facts that the owner of a run's process knows when a call begins."""

    epoch: int
    lease: Lease
    fence_token: str
    """A new one, for the attempt that may begin."""
    cancelled: str | None = None
    retry_failed: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer to a begin: the decision, the record, and whether the record is to be written first."""

    kind: Kind
    record: Activation
    is_new: bool = False
    message: str = ""


def begin(known: Activation | None, request: BeginActivationRequest, owner: OwnerFacts) -> Begun:
    """Decide what the caller of ``begin`` has to do."""
    if known is not None and (difference := _difference(known, request)):
        return Begun(Kind.CONFLICT, known, message=difference)
    if known is not None and known.status is Status.COMPLETED:
        return Begun(Kind.REPLAY, known)
    if owner.cancelled is not None or (known is not None and known.status is Status.CANCELLED):
        return _cancelled(known or new_activation(request), owner)
    if known is None:
        return _next_attempt(new_activation(request), request, owner)
    if _replays_failure(known, owner):
        return Begun(Kind.UNKNOWN_OUTCOME, known, message=_what_happened(known))
    if known.status is Status.RETRY_READY:
        return _next_attempt(known, request, owner)
    if known.status is Status.FAILED and owner.retry_failed and not _is_under_way(known, owner):
        return _next_attempt(known, request, owner)
    if known.status in (Status.FAILED, Status.UNKNOWN_OUTCOME):
        return Begun(Kind.UNKNOWN_OUTCOME, known, message=_what_happened(known))
    if _is_under_way(known, owner):
        return Begun(Kind.WAIT, known, message=f"attempt {known.attempt} is {_DOES[known.status]}")
    if known.status is Status.SUSPENDED or known.recovery_policy in _REPEATS:
        return _next_attempt(known, request, owner)
    return _interrupted(known)


_DOES = {Status.ACTIVE: "under way", Status.SUSPENDED: "asleep"}


def _difference(known: Activation, request: BeginActivationRequest) -> str:
    for name in ("input_digest", "definition_digest"):
        was, now = getattr(known, name), getattr(request, name).hex()
        if was != now:
            what = name.replace("_", " ")
            return f"{known.stable_key} began with another {what}: {was[:12]}, not {now[:12]}"
    return ""


def _is_under_way(known: Activation, owner: OwnerFacts) -> bool:
    return known.epoch == owner.epoch and known.lease == owner.lease


def has_failed(known: Activation) -> bool:
    """Whether the newest attempt ended with an exception, which is recorded."""
    return known.error_data is not None and known.status in _ENDED_BADLY


def _replays_failure(known: Activation, owner: OwnerFacts) -> bool:
    """Whether a model was told of a tool's failure before: it is told the same again, or it is asked otherwise."""
    return known.kind == ActivationKind.TOOL.name and has_failed(known) and not _is_under_way(known, owner)


def _next_attempt(known: Activation, request: BeginActivationRequest, owner: OwnerFacts) -> Begun:
    record = replace(
        known, status=Status.ACTIVE, attempt=known.attempt + 1, previous_attempt=known.attempt,
        fence_token=owner.fence_token, epoch=owner.epoch, lease=owner.lease,
        recovery_policy=Policy(request.recovery_policy).name,
        input=payload_of(request.input_data) if request.input_data else None, error_code="", error_data=None,
        retryable=False, external_outcome_certainty="", evidence=(), latency_ms=0, reason="",
    )  # fmt: skip
    return Begun(Kind.EXECUTE, record, is_new=True)


def _interrupted(known: Activation) -> Begun:
    """End an attempt that may have done something, and that its policy does not allow to be made again."""
    status = Status.FAILED if known.recovery_policy == Policy.FAIL.name else Status.UNKNOWN_OUTCOME
    record = replace(
        known, status=status, input=None, error_code=INTERRUPTED, external_outcome_certainty="UNKNOWN",
        reason=f"attempt {known.attempt} was interrupted, and the policy {known.recovery_policy} does not repeat it",
    )  # fmt: skip
    return Begun(Kind.UNKNOWN_OUTCOME, record, is_new=True, message=_what_happened(record))


def _cancelled(known: Activation, owner: OwnerFacts) -> Begun:
    if known.status is Status.CANCELLED:
        return Begun(Kind.CANCELLED, known, message=known.reason)
    reason = owner.cancelled or ""
    return Begun(
        Kind.CANCELLED, replace(known, status=Status.CANCELLED, input=None, reason=reason), is_new=True, message=reason
    )


def _what_happened(known: Activation) -> str:
    data = known.error_data if isinstance(known.error_data, str) else ""
    return " ".join(text for text in (known.error_code, known.reason or data[:500]) if text)


def check_holder(
    known: Activation | None, activation_id: str, attempt: int, fence_token: bytes, *, ends: frozenset[Status]
) -> Activation:
    """Return the record if the caller holds its newest attempt, and it is ACTIVE or has an end of ``ends``."""
    if known is None:
        raise refusal(Code.ILLEGAL_TRANSITION, "it was never begun", activation_id, attempt)
    if known.status is Status.CANCELLED:
        raise refusal(Code.CANCELLED, known.reason, activation_id, attempt)
    if attempt != known.attempt or fence_token.hex() != known.fence_token:
        message = f"its newest attempt is {known.attempt}, with a fence token of its own"
        raise refusal(Code.STALE_AUTHORITY, message, activation_id, attempt)
    if known.status is not Status.ACTIVE and known.status not in ends:
        code = _CODES.get(known.status, Code.ILLEGAL_TRANSITION)
        raise refusal(code, f"it is {known.status} already", activation_id, attempt)
    return known


def ended_before(known: Activation, activation_id: str, same: bool) -> bool:
    """Whether the attempt has ended before, in the same way. Another end raises PAYLOAD_CONFLICT."""
    if known.status is Status.ACTIVE:
        return False
    if not same:
        message = f"it is {known.status} with another content"
        raise refusal(Code.PAYLOAD_CONFLICT, message, activation_id, known.attempt)
    return True


def failed_status(known: Activation, retryable: bool, certainty: str) -> Status:
    """Return what an attempt that failed leaves: whether it is made again depends on its policy."""
    if known.recovery_policy in _REPEATS:
        return Status.RETRY_READY if retryable else Status.FAILED
    if certainty == "NO_EFFECT":
        may_repeat = retryable and known.recovery_policy != Policy.FAIL.name
        return Status.RETRY_READY if may_repeat else Status.FAILED
    is_open = certainty == "UNKNOWN" and known.recovery_policy != Policy.FAIL.name
    return Status.UNKNOWN_OUTCOME if is_open else Status.FAILED


def refusal(code: ActivationErrorCode, message: str, activation_id: str = "", attempt: int = 0) -> ActivationError:
    """Return the SDK's error for a call that may not be made."""
    return ActivationError(code, message, activation_id=activation_id, attempt=attempt)


def check_request(request: BeginActivationRequest, found: str) -> None:
    """Raise INVALID_ARGUMENT for a request without an identity, or with a digest that is none."""
    empty = [
        name for name in ("project_id", "run_id", "stable_key", "worker_session_id", "run_authority", "lease_authority")
        if not getattr(request, name)
    ]  # fmt: skip
    if empty:
        raise refusal(Code.INVALID_ARGUMENT, f"{empty[0]} is empty", found)
    for name in ("input_digest", "definition_digest"):
        if len(getattr(request, name)) != _SHA256_BYTES:
            raise refusal(Code.INVALID_ARGUMENT, f"{name} is no SHA-256", found)
