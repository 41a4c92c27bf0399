"""Errors with which an API answered, and errors of sending: as the journal has them. The client's own are made of them.

AnswerError     the API refused the request: it is not sent again
└── BusyError   the API is busy or broken (429, 5xx, ...): the request is sent again
SendError       the request could not be sent: it is not sent again
└── LostError   the connection failed or the time ran out: the request is sent again
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import Any

from seekpoint import register_failure

_BODY_CHARACTERS_MAX = 8_000
_BUSY = frozenset({408, 429})
_NEVER_FREE = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of answers with the status 429 that do not end by waiting."""
_LOST = ("NetworkError", "ProxyError", "RemoteProtocolError", "TimeoutException")


@register_failure
class AnswerError(Exception):
    """The API refused a request. ``http_status``, ``body`` and ``request_id`` are those of its answer."""

    retryable = False
    http_status: int = 500
    body: Any = None
    request_id: str | None = None
    headers: Mapping[str, str] = {}


@register_failure
class BusyError(AnswerError, ConnectionError):
    """The API is busy or broken. ``headers`` has the seconds that it asked to wait, as ``retry-after``."""

    retryable = True


@register_failure
class SendError(Exception):
    """A request could not be sent. ``kind`` is the name of the error in the module of the HTTP client."""

    retryable = False
    kind: str = "TransportError"


@register_failure
class LostError(SendError, ConnectionError):
    """The connection failed, or the time ran out."""

    retryable = True


def answer_error(status: int, headers: Mapping[str, str], body: Any, also_busy: frozenset[int]) -> AnswerError:
    """Return the error for an answer of the API. ``also_busy`` are statuses that its clients send again."""
    kind = BusyError if _is_busy(status, headers, body, also_busy) else AnswerError
    error = kind(f"the API answered with status {status}: {_message(body)}")
    error.http_status = status
    error.body = body if len(str(body)) <= _BODY_CHARACTERS_MAX else str(body)[:_BODY_CHARACTERS_MAX]
    error.request_id = headers.get("x-request-id") or headers.get("request-id")
    wait_s = retry_after_s(headers, body)
    error.headers = {} if wait_s is None else {"retry-after": f"{wait_s:g}"}
    return error


def send_error(error: Exception) -> SendError:
    """Return the error for one of the HTTP client's transport errors."""
    names = [one.__name__ for one in type(error).__mro__]
    made = (LostError if any(name in _LOST for name in names) else SendError)(str(error) or names[0])
    made.kind = names[0]
    return made


def retry_after_s(headers: Mapping[str, str], body: Any = None) -> float | None:
    """Return the seconds that an answer asks to wait; None if it does not.

    >>> retry_after_s({"retry-after-ms": "1500"}), retry_after_s({"retry-after": "7"}), retry_after_s({})
    (1.5, 7.0, None)
    """
    milliseconds, text = headers.get("retry-after-ms"), headers.get("retry-after")
    found = _number(milliseconds)
    if found is not None:
        return found / 1000
    if text is not None:
        found = _number(text)
        if found is None:
            try:
                found = max(0.0, parsedate_to_datetime(text).timestamp() - time())
            except ValueError:
                found = None
        if found is not None:
            return found
    return _google_delay_s(body)


def _is_busy(status: int, headers: Mapping[str, str], body: Any, also_busy: frozenset[int]) -> bool:
    told = headers.get("x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    error = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, Mapping) and not _NEVER_FREE.isdisjoint({str(error.get("code")), str(error.get("type"))}):
        return False
    return status in _BUSY or status in also_busy or status >= 500


def _message(body: Any) -> str:
    error = body.get("error") if isinstance(body, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else None
    return str(message or error or body)[:500]


def _google_delay_s(body: Any) -> float | None:
    """Return the ``retryDelay`` of Google's errors, which is in their body: ``"34s"``."""
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for one in details if isinstance(details, list) else ():
        delay = one.get("retryDelay") if isinstance(one, Mapping) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if isfinite(found) and found >= 0 else None
