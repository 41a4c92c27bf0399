"""Check the parameters of a call: the callable, the name, the retry, the time. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from seekpoint.producers.durable.steps.retries import ONCE, Retry
from seekpoint.schemas.errors import InvalidName, InvalidOption, InvalidSetting, Refused


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


_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
_NONE: Mapping[str, Any] = {}


def check_options(
    taker: str, call: Callable[..., Any] | None, options: Mapping[str, Any], own: Mapping[str, Any] = _NONE
) -> None:
    """Check which options are the function's before anything is recorded.

    ``own`` are the options of ``taker`` itself, with their values. Raises ``InvalidOption`` for one of ``options`` that
    the function does not take, and for one of ``own`` that has a value and is a parameter of the function too. A
    function that does not tell its parameters, or takes any, is not checked; None takes no options at all.
    """
    if not options and all(value is None for value in own.values()):
        return
    parameters = _parameters(call)
    if parameters is None:
        return
    taken = {one.name for one in parameters if one.kind in _BY_NAME}
    for option in own:
        if own[option] is not None and option in taken:
            raise InvalidOption(
                f"{option}= may be the option of {taker} or that of the function", option=option,
                call=_shown(call), hint="make the function a step (@step) or an effect (@effect): then its options are "
                f"the function's, and with_options({option}=...) gives yours",
            )  # fmt: skip
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return
    for option in options:
        if option not in (own if call is None else taken):
            raise _unknown(taker, call, option, {*own, *taken})


def _parameters(call: Callable[..., Any] | None) -> list[inspect.Parameter] | None:
    if call is None:
        return []
    try:
        return [*inspect.signature(call, follow_wrapped=False).parameters.values()]
    except (TypeError, ValueError):  # a callable that does not tell, as some of C's, or no callable at all
        return None


def _unknown(taker: str, call: Callable[..., Any] | None, option: str, known: set[str]) -> InvalidOption:
    from seekpoint.schemas.values.near_names import nearest

    near = nearest(option, sorted(known))
    takers = taker if call is None else f"{taker} or of the function"
    return InvalidOption(
        f"{option}= is no option of {takers}", option=option, call=_shown(call),
        hint=f"did you mean {near}=?" if near else f"known options: {', '.join(sorted(known)) or 'none'}",
    )  # fmt: skip


def _shown(call: Callable[..., Any] | None) -> str | None:
    return None if call is None else str(getattr(call, "__qualname__", type(call).__qualname__))
