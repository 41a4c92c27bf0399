"""Which errors another attempt may well not meet, and how long a server asked to wait. Judged by what they are called
and carry: no client is imported. Pure.
"""

from __future__ import annotations

import errno
import math
from typing import Any, Final

from seekpoint.producers.durable.failures.failed_calls import is_tagged

__all__ = ["is_transient", "retry_after_s", "runs_on"]

_STATUSES: Final = frozenset({408, 425, 429})
"""Besides those from 500 on. Not 409: a conflict is mostly an answer."""

_ERRNOS: Final = frozenset({
    errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET,
    errno.ENETUNREACH, errno.EPIPE, errno.ETIMEDOUT,
})  # fmt: skip

_CLASSES: Final = frozenset({
    "aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError", "anthropic.APIConnectionError",
    "httpcore.NetworkError", "httpcore.RemoteProtocolError", "httpcore.TimeoutException", "httpx.NetworkError",
    "httpx.ProxyError", "httpx.RemoteProtocolError", "httpx.TimeoutException", "openai.APIConnectionError",
    "redis.ConnectionError", "redis.TimeoutError", "requests.ChunkedEncodingError", "requests.ConnectionError",
    "requests.Timeout", "socket.gaierror", "ssl.SSLEOFError", "ssl.SSLZeroReturnError", "urllib3.IncompleteRead",
    "urllib3.NewConnectionError", "urllib3.ProtocolError", "urllib3.TimeoutError",
})  # fmt: skip
"""Errors of a transport, their subclasses too: the package that defines the class, and its name."""

_RUNS_ON = "__seekpoint_runs_on__"


def runs_on(error: TimeoutError) -> TimeoutError:
    """Mark the time-out of a thread that cannot be stopped: another attempt would run beside the first."""
    setattr(error, _RUNS_ON, True)
    return error


def is_transient(error: BaseException) -> bool:
    """Whether ``error`` is one of a connection, a time-out, or a server that is busy: of a group, each of them.

    The failure of a call inside the body is none: that call had its own attempts.
    """
    if is_tagged(error) or getattr(error, _RUNS_ON, False):
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_transient, error.exceptions))
    status = _status(error)
    if status is not None:
        return status in _STATUSES or status >= 500
    if isinstance(error, ConnectionError | TimeoutError) or _carried(error, "errno") in _ERRNOS:
        return True
    reason = _carried(error, "reason")  # of an error of urllib's or urllib3's
    if isinstance(reason, Exception):
        return is_transient(reason)
    return any(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" in _CLASSES for kind in type(error).__mro__)


def retry_after_s(error: BaseException) -> float:
    """Return the seconds that the server asked to wait (``Retry-After``); 0 where it did not, or named a date."""
    for holder in (error, _carried(error, "response")):
        headers = _carried(holder, "headers")
        for name in ("retry-after", "Retry-After"):
            try:
                seconds = float(headers.get(name))
            except Exception:  # no headers, no such header, no number
                continue
            if math.isfinite(seconds) and seconds > 0:
                return seconds
    return 0.0


def _status(error: BaseException) -> int | None:
    """The HTTP status that the error or its response carries, if it says that the request failed."""
    for holder in (error, _carried(error, "response")):
        for name in ("status_code", "status", "code"):
            found = _carried(holder, name)
            if isinstance(found, int) and 400 <= found < 600:
                return int(found)
    return None


def _carried(holder: Any, name: str) -> Any:
    """An attribute of somebody else's object, whose properties may raise; None if there is none."""
    try:
        return getattr(holder, name, None)
    except Exception:  # httpx raises RuntimeError where there is no request; it tells nothing then
        return None
