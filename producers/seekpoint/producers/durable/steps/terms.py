"""The terms of a call: what is called, by which name, how often and how long. What cannot be meant is refused. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from seekpoint.producers.durable.steps.retries import ONCE, Retry
from seekpoint.schemas.errors import InvalidName, InvalidSetting, Refused

__all__ = ["callable_of", "name_of", "retry_of", "seconds"]


def callable_of(given: Any, name: str) -> Callable[..., Any]:
    """``given``. ``Refused`` for what cannot be called: remembered as a failure, it would fail for ever."""
    if callable(given):
        return given  # type: ignore[no-any-return]  # callable, as just seen
    if inspect.iscoroutine(given):
        given.close()  # or Python says that it was never awaited
    raise Refused(
        "a call needs a function", call=name, found=type(given).__name__,
        hint="name the function, and give its arguments behind it: not f(1), but f, 1",
    )  # fmt: skip


def name_of(call: Callable[..., Any]) -> str:
    """What a function is called. ``InvalidName`` where it has no name, as a partial one."""
    found = getattr(call, "__name__", None)
    if not isinstance(found, str):
        raise InvalidName(
            "a call needs a name", found=type(call).__name__, hint='this function has none: give name="..."'
        )
    return found


def retry_of(given: Retry | None, default: Retry | None = None) -> Retry:
    """``given``, or ``default``, or once. ``InvalidSetting`` for what is no ``Retry``."""
    if given is not None and not isinstance(given, Retry):
        raise InvalidSetting("retry= is a Retry: Retry(attempts=3)", retry=repr(given)[:80])
    return given or default or ONCE


def seconds(span: float | timedelta | None) -> float | None:
    """A span of time in seconds; None stays None. ``InvalidSetting`` for what is none, or not above 0."""
    found = span.total_seconds() if isinstance(span, timedelta) else span
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float) or not found > 0):
        raise InvalidSetting("a time-out is a number of seconds above 0, or a timedelta", timeout=repr(span)[:80])
    return found
