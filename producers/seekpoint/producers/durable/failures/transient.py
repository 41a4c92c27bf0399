"""Classify transient errors, and read how long a server asked to wait: by names and attributes, without importing any
client. Pure.
"""

from __future__ import annotations

import errno
import math
from typing import Any, Final

from seekpoint.producers.durable.failures.failed_calls import is_tagged

_STATUSES: Final = frozenset({408, 425, 429})
"""Besides those from 500 on. Not 409: a conflict is mostly an answer."""

_ERRNOS: Final = frozenset({
    errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET,
    errno.ENETUNREACH, errno.EPIPE, errno.ETIMEDOUT,
})  # fmt: skip

_CLASSES: Final = frozenset({
    "aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError", "anthropic.APIConnectionError",
    "httpcore.NetworkError", "httpcore.RemoteProtocolError", "httpcore.TimeoutException", "httpx.NetworkError",
    "httpx.ProxyError", "httpx.RemoteProtocolError", "httpx.TimeoutException", "httpx2.NetworkError",
    "httpx2.ProxyError", "httpx2.RemoteProtocolError", "httpx2.TimeoutException", "openai.APIConnectionError",
    "redis.ConnectionError", "redis.TimeoutError", "requests.ChunkedEncodingError", "requests.ConnectionError",
    "requests.Timeout", "socket.gaierror", "ssl.SSLEOFError", "ssl.SSLZeroReturnError", "urllib3.IncompleteRead",
    "urllib3.NewConnectionError", "urllib3.ProtocolError", "urllib3.TimeoutError",
})  # fmt: skip
"""Classes of transport errors, as package and name; their subclasses count too."""

_STILL_RUNNING = "__seekpoint_still_running__"


def still_running(error: TimeoutError) -> TimeoutError:
    """Mark the time-out of a thread that cannot be stopped: another attempt would run beside it."""
    setattr(error, _STILL_RUNNING, True)
    return error


def is_transient(error: BaseException) -> bool:
    """Whether ``error``, or each member of a group, is a connection error, a time-out, or a busy server's answer.

    The failure of a call inside the step is not transient: that call had its own attempts.
    """
    if is_tagged(error) or getattr(error, _STILL_RUNNING, False):
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_transient, error.exceptions))
    status = _status(error)
    if status is not None:
        return status in _STATUSES or status >= 500
    if isinstance(error, ConnectionError | TimeoutError) or _attribute(error, "errno") in _ERRNOS:
        return True
    reason = _attribute(error, "reason")  # of an error of urllib's or urllib3's
    if isinstance(reason, Exception):
        return is_transient(reason)
    return any(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" in _CLASSES for kind in type(error).__mro__)


def retry_after_s(error: BaseException) -> float:
    """Return the seconds that the server asked to wait (``Retry-After``); 0 if it did not, or named a date."""
    for holder in (error, _attribute(error, "response")):
        headers = _attribute(holder, "headers")
        for name in ("retry-after", "Retry-After"):
            try:
                seconds = float(headers.get(name))
            except Exception:  # no headers, no such header, no number
                continue
            if math.isfinite(seconds) and seconds > 0:
                return seconds
    return 0.0


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of the error or its response if that is 400 or above."""
    for holder in (error, _attribute(error, "response")):
        for name in ("status_code", "status", "code"):
            found = _attribute(holder, name)
            if isinstance(found, int) and 400 <= found < 600:
                return int(found)
    return None


def _attribute(holder: Any, name: str) -> Any:
    """Return an attribute of a client's object, whose properties may raise; None if there is none."""
    try:
        return getattr(holder, name, None)
    except Exception:  # httpx raises RuntimeError if there is no request
        return None
