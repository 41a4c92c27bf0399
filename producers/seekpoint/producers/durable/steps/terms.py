"""Check the parameters of a call: the callable, the name, the retry, the time. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from seekpoint.producers.durable.steps.retries import ONCE, Retry
from seekpoint.schemas.errors import InvalidName, InvalidSetting, Refused

__all__ = ["callable_of", "name_of", "retry_of", "seconds"]


def callable_of(given: Any, name: str) -> Callable[..., Any]:
    """Return ``given``. Raise ``Refused`` for what is not callable: recorded as a failure, it would fail for ever."""
    if callable(given):
        return given  # type: ignore[no-any-return]  # callable, as just seen
    if inspect.iscoroutine(given):
        given.close()  # or Python says that it was never awaited
    raise Refused(
        "a call needs a function", call=name, found=type(given).__name__,
        hint="name the function, and give its arguments behind it: not f(1), but f, 1",
    )  # fmt: skip


def name_of(call: Callable[..., Any]) -> str:
    """Return the name of a function. Raise ``InvalidName`` if it has none, as a partial one."""
    found = getattr(call, "__name__", None)
    if not isinstance(found, str):
        raise InvalidName(
            "a call needs a name", found=type(call).__name__, hint='this function has none: give name="..."'
        )
    return found


def retry_of(given: Retry | None, default: Retry | None = None) -> Retry:
    """Return ``given``, else ``default``, else one attempt. Raise ``InvalidSetting`` for what is not a ``Retry``."""
    if given is not None and not isinstance(given, Retry):
        raise InvalidSetting("retry= is a Retry: Retry(attempts=3)", retry=repr(given)[:80])
    return given or default or ONCE


def seconds(span: float | timedelta | None) -> float | None:
    """Return a span of time in seconds; None stays None. Raise ``InvalidSetting`` unless it is above 0."""
    found = span.total_seconds() if isinstance(span, timedelta) else span
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float) or not found > 0):
        raise InvalidSetting("a time-out is a number of seconds above 0, or a timedelta", timeout=repr(span)[:80])
    return found
