"""Which errors are transient, of clients that need not be installed: classes of their names, with what they carry."""

from __future__ import annotations

import errno
import socket
import ssl
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers.durable.failures.failed_calls import tagged
from seekpoint.producers.durable.failures.transient import is_transient, retry_after_s, still_running
from seekpoint.producers.durable.steps.retries import TRANSIENT, Retry


class Carrier:
    """A response, or a header's holder: whatever it is given."""

    def __init__(self, **facts: Any) -> None:
        vars(self).update(facts)


def raised(name: str, *bases: type[Exception], **facts: Any) -> Exception:
    """An error as the client's module ``httpx._exceptions`` would define and raise it."""
    module, _, of = name.rpartition(".")
    error: Exception = type(of, bases or (Exception,), {"__module__": module})("it failed")
    vars(error).update(facts)
    return error


def subclass_of(name: str, child: str, **facts: Any) -> Exception:
    return raised(child, type(raised(name)), **facts)


def answered(status: Any, **headers: str) -> Carrier:
    return Carrier(status_code=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


TRANSPORT = [
    ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    BrokenPipeError(),
    TimeoutError("slow"),
    OSError(errno.ENETUNREACH, "no route"),
    socket.gaierror(socket.EAI_AGAIN, "no name server"),
    ssl.SSLEOFError(8, "cut"),
    subclass_of("httpx.NetworkError", "httpx.ConnectError"),
    subclass_of("httpx.TimeoutException", "httpx.ReadTimeout"),
    raised("httpx.RemoteProtocolError"),
    subclass_of("httpx2.NetworkError", "httpx2.ConnectError"),
    subclass_of("httpx2.TimeoutException", "httpx2.ReadTimeout"),
    raised("httpx2.ProxyError"),
    raised("httpx2.RemoteProtocolError"),
    raised("httpcore._exceptions.RemoteProtocolError"),
    subclass_of("requests.exceptions.ConnectionError", "requests.exceptions.ProxyError", response=None),
    subclass_of("requests.exceptions.Timeout", "requests.exceptions.ReadTimeout"),
    subclass_of("aiohttp.client_exceptions.ClientConnectionError", "aiohttp.client_exceptions.ServerDisconnectedError"),
    raised("aiohttp.client_exceptions.ClientPayloadError"),
    raised("openai.APIConnectionError", body=None, code=None),
    subclass_of("anthropic.APIConnectionError", "anthropic.APITimeoutError"),
    raised("redis.exceptions.ConnectionError"),
    raised("urllib.error.URLError", OSError, reason=ConnectionResetError()),
    raised("urllib3.exceptions.MaxRetryError", reason=raised("urllib3.exceptions.NewConnectionError")),
]

BUSY = [408, 425, 429, 500, 502, 503, 504, 529, HTTPStatus.SERVICE_UNAVAILABLE]
ANSWERS = [400, 401, 403, 404, 409, 422, HTTPStatus.NOT_FOUND]

FINAL = [
    ValueError("a bug"),
    TypeError("another"),
    KeyError("x"),
    AssertionError(),
    FileNotFoundError(errno.ENOENT, "gone"),
    PermissionError(errno.EACCES, "no"),
    OSError("unsaid"),
    ssl.SSLCertVerificationError(1, "not this host"),
    raised("httpx.InvalidURL"),
    raised("httpx.UnsupportedProtocol"),
    raised("requests.exceptions.InvalidURL", ValueError, response=None),
    raised("mine.ConnectionError"),
    raised("urllib.error.URLError", OSError, reason="no host given"),
    raised("mine.Refused", code=7, status="500", status_code=True),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no start"),
]


@pytest.mark.parametrize("error", TRANSPORT, ids=repr)
def test_an_error_of_a_transport_is_transient(error: Exception) -> None:
    """The builtin ones, and those of the common clients with their subclasses."""
    assert is_transient(error)


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_a_bug_and_a_refusal_are_not_transient(error: Exception) -> None:
    """Another attempt would meet them again."""
    assert not is_transient(error)


def shapes(status: Any) -> list[Exception]:
    """The places where clients put a status: error or response, under three names."""
    return [
        raised("httpx.HTTPStatusError", response=answered(status)),
        raised("requests.exceptions.HTTPError", OSError, response=answered(status)),
        raised("aiohttp.client_exceptions.ClientResponseError", status=status),
        raised("openai.RateLimitError", status_code=status, code="rate_limit_exceeded", response=answered(status)),
        raised("anthropic.APIStatusError", status_code=status),
        raised("google.api_core.exceptions.ServiceUnavailable", code=status),
        raised("urllib.error.HTTPError", OSError, code=status, reason="it says"),
    ]


@pytest.mark.parametrize("status", BUSY)
def test_a_busy_server_is_transient(status: int) -> None:
    """408, 425, 429 and what is the server's own fault, wherever the client says it."""
    assert all(is_transient(error) for error in shapes(status))


@pytest.mark.parametrize("status", ANSWERS)
def test_an_answer_is_not_transient(status: int) -> None:
    """Nor a conflict; and not because the class is one of a connection."""
    assert not any(is_transient(error) for error in shapes(status))
    assert not is_transient(raised("openai.APIConnectionError", status_code=status))


def test_of_a_group_each_error_must_be_transient() -> None:
    """One bug among them would be met again."""
    assert is_transient(ExceptionGroup("both", [ConnectionError(), ExceptionGroup("in it", [TimeoutError()])]))
    assert not is_transient(ExceptionGroup("one", [ConnectionError(), ValueError()]))


def test_the_failure_of_a_call_inside_is_not_transient() -> None:
    """It had its own attempts; what the code raises because of it, or while it handles it, is an error of its own."""
    inner = tagged(ConnectionError("of the call inside"), "order:1/ship:1")
    assert not is_transient(inner)
    assert not is_transient(ExceptionGroup("with another", [inner, ConnectionError()]))
    another = ConnectionError("of the fallback")
    another.__context__ = inner
    assert is_transient(another)


def test_the_time_out_of_a_thread_that_runs_on_is_not_transient() -> None:
    """Another attempt would run beside it."""
    assert not is_transient(still_running(TimeoutError("late")))


class Silent(Exception):
    """One whose properties raise, as httpx's do where there is no request."""

    @property
    def response(self) -> Any:
        raise RuntimeError("there is none")

    status_code = errno = reason = headers = response


def test_an_error_whose_properties_raise_is_only_not_transient() -> None:
    """Looking at it does not hide it."""
    assert not is_transient(Silent())
    assert retry_after_s(Silent()) == 0


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (raised("httpx.HTTPStatusError", response=answered(429, retry_after="7")), 7),
        (raised("requests.exceptions.HTTPError", response=answered(503, Retry_After="2.5")), 2.5),
        (raised("aiohttp.client_exceptions.ClientResponseError", headers={"Retry-After": "3"}), 3),
        (raised("httpx.HTTPStatusError", response=answered(429, retry_after="-1")), 0),
        (raised("httpx.HTTPStatusError", response=answered(429, retry_after="inf")), 0),
        (raised("httpx.HTTPStatusError", response=answered(429, retry_after="nan")), 0),
        (raised("httpx.HTTPStatusError", response=answered(429, retry_after="Wed, 21 Oct 2026 07:28:00 GMT")), 0),
        (raised("httpx.HTTPStatusError", response=Carrier(headers=None)), 0),
        (ConnectionError(), 0),
    ],
)
def test_the_seconds_a_server_asked_for_are_read(error: Exception, seconds: float) -> None:
    """From the error or its response; nonsense and dates are none."""
    assert retry_after_s(error) == seconds


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True), st.floats(0, 1e9))
def test_a_wait_is_bounded_and_at_least_as_long_as_asked(attempt: int, chance: float, asked_s: float) -> None:
    """The server's word moves it up, never past the most that the retry allows; its jitter only adds to it."""
    wait_s = TRANSIENT.wait_s(attempt, chance, asked_s)
    own_s = TRANSIENT.wait_s(attempt, chance)
    most_s = TRANSIENT.backoff_max_s
    assert max(own_s, min(asked_s, most_s)) <= wait_s <= max(own_s, most_s)  # exact: nothing is added to a bound
    assert own_s <= most_s * (1 + TRANSIENT.jitter)


def test_many_that_a_server_told_the_same_come_back_apart() -> None:
    """By the share that the jitter says."""
    retry = Retry(backoff_s=0, jitter=0.5)
    assert [retry.wait_s(1, chance, 10) for chance in (0.0, 0.5)] == [10, 12.5]


def test_by_default_three_attempts_are_made_for_transient_errors_only() -> None:
    """What a step or a decision gets that asks for nothing."""
    assert [TRANSIENT.allows(attempt, ConnectionError()) for attempt in (1, 2, 3)] == [True, True, False]
    assert not TRANSIENT.allows(1, ValueError())
    assert Retry(attempts=2).allows(1, ValueError()), "a Retry of one's own is for every error"
