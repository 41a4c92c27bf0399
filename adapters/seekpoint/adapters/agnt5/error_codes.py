"""The SDK's error codes for errors of Seekpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agnt5.exceptions import ActivationError, ActivationErrorCode

from seekpoint.errors import (
    AlreadyOpen,
    AppendTimeout,
    ClaimLost,
    ConfirmTimeout,
    Fenced,
    HandleClosed,
    HandleLost,
    LimitExceeded,
    OperatorRequired,
    OwnerAlive,
    ProcessFinished,
    Retryable,
    SeekpointError,
)

_Code = ActivationErrorCode
_CODES: tuple[tuple[type[SeekpointError], ActivationErrorCode], ...] = (
    (OwnerAlive, _Code.CONTENDED),
    (AlreadyOpen, _Code.CONTENDED),
    (ClaimLost, _Code.CONTENDED),
    (Fenced, _Code.STALE_AUTHORITY),
    (AppendTimeout, _Code.UNKNOWN_OUTCOME),
    (ConfirmTimeout, _Code.UNKNOWN_OUTCOME),
    (HandleClosed, _Code.UNKNOWN_OUTCOME),
    (LimitExceeded, _Code.REFERENCE_REQUIRED),
    (ProcessFinished, _Code.ILLEGAL_TRANSITION),
    (HandleLost, _Code.STALE_AUTHORITY),
    (Retryable, _Code.DURABILITY_UNAVAILABLE),
    (OperatorRequired, _Code.DURABILITY_UNAVAILABLE),
)
"""The first that fits counts. Other errors are mistakes of the caller, and raised as they are."""


@contextmanager
def activation_errors(activation_id: str = "", attempt: int = 0) -> Iterator[None]:
    """Raise errors of Seekpoint as the SDK's ``ActivationError``. The error itself is its cause."""
    try:
        yield
    except tuple(kind for kind, _ in _CODES) as exc:
        code = next(code for kind, code in _CODES if isinstance(exc, kind))
        raise ActivationError(code, str(exc), activation_id=activation_id, attempt=attempt) from exc
