"""Write a failure as JSON, and rebuild the exception from it.

The JSON has the class as ``module:qualname``, the message, and those arguments and attributes that JSON carries
exactly. An exception of Seekpoint's own keeps its facts and its hint. The failure of an effect also says whether
certainly nothing was done. The secrets of the settings are masked. The exception is rebuilt as its own class if that is
a builtin, Seekpoint's own, or registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seekpoint.producers.durable.failures.failure_classes import class_name, class_named, rebuilt
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.config.error_texts import TEXT_CHARACTERS_MAX, full_message, message_of
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    AppendTimeout,
    BudgetExceeded,
    Cancelled,
    ConfirmTimeout,
    EffectUnknown,
    HandleLost,
    LimitExceeded,
    RecordedValueInvalid,
    ReplayDivergence,
    SeekpointError,
    StepFailed,
    UndecodableRecord,
    UnserializableValue,
)
from seekpoint.schemas.values.json_values import dump, load

__all__ = [
    "error_name",
    "failure_text",
    "failure_to_raise",
    "is_failure",
    "is_undone",
    "mark_undone",
    "recorded_failure",
    "recorded_message",
    "scrubbed_failure",
    "unwrapped",
]

_NO_FAILURES = (
    HandleLost, ReplayDivergence, RecordedValueInvalid, AppendTimeout, ConfirmTimeout, EffectUnknown, BudgetExceeded,
    Cancelled,
)  # fmt: skip
"""The process has ended, its code is wrong, or a person has to decide: the call itself stays in doubt."""
_UNDONE = "undone"
_DATA_CHARACTERS_MAX = 16_000


def is_failure(error: Exception) -> bool:
    """Whether ``error`` is the failure of a call, to be recorded; else the call stays in doubt."""
    return not isinstance(unwrapped(error), _NO_FAILURES)


def unwrapped(error: BaseException) -> BaseException:
    """Return ``error``, or the member of a group that is no failure of a call, if there is one.

    Of several such members, return the first by the order of ``_NO_FAILURES``: the end of the process comes before an
    effect in doubt, and so on.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [*_members(error)]
    return next((one for kind in _NO_FAILURES for one in found if isinstance(one, kind)), error)


def _members(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _members(one)
        else:
            yield one


def failure_text(
    error: BaseException, settings: Settings, limits: Limits = DEFAULT_LIMITS, *, retryable: bool = False
) -> Json:
    """Return ``{"type", "message", "data", "retryable"}`` as JSON text that fits an entry, without the secrets."""
    return _dumped(_failure(error, settings, retryable), limits)


def _failure(error: BaseException, settings: Settings, retryable: bool) -> dict[str, Any]:
    return {
        "type": _type_name(class_name(type(error)), settings),
        "message": message_of(error, settings),
        "data": _data(error, settings),
        "retryable": retryable,
    }


def _type_name(name: str, settings: Settings) -> str:
    """Return the name of a class, masked unless failures can be rebuilt as it."""
    return name if class_named(name) is not None else settings.scrub(name)


def _dumped(failure: dict[str, Any], limits: Limits = DEFAULT_LIMITS) -> Json:
    try:
        return dump(failure, limits)
    except (LimitExceeded, UnserializableValue):
        return dump({**failure, "data": None}, limits)


def scrubbed_failure(failure: Json, settings: Settings) -> Json:
    """Return a failure that another program wrote, without the secrets of ``settings``."""
    found = _loaded(failure)
    scrubbed = {name: settings.scrub_value(one) for name, one in found.items()}
    return _dumped({**scrubbed, "type": _type_name(str(found.get("type", "")), settings)})


def mark_undone(failure: Json) -> Json:
    """Return the failure of an effect, marked that certainly nothing was done."""
    return _dumped({**_loaded(failure), _UNDONE: True})


def is_undone(failure: Json) -> bool:
    """Whether the failure is marked that certainly nothing was done."""
    return _loaded(failure).get(_UNDONE) is True


def _loaded(failure: Json) -> dict[str, Any]:
    """Return the failure as a dict; empty if the text is not valid, since anybody may have written it."""
    try:
        found = load(failure)
    except UndecodableRecord:
        return {}
    return found if isinstance(found, dict) else {}


def recorded_failure(
    text: Json, *, process_id: str | None = None, key: str | None = None, seq: int | None = None
) -> Exception:
    """Return the exception of a recorded failure, of the same class if ``failure_classes`` allows that.

    Else return ``StepFailed`` with the name of the class.
    """
    failure = _loaded(text)
    name, message, data = str(failure.get("type", "")), str(failure.get("message", "")), failure.get("data")
    kind = class_named(name)
    made = None if kind is None else rebuilt(kind, message, data if isinstance(data, dict) else {})
    return made or StepFailed(message or name, type=name, process_id=process_id, key=key, seq=seq)


def recorded_message(text: Json) -> str:
    """Return the message in a recorded failure; the rebuilt exception may have less of it."""
    return str(_loaded(text).get("message", ""))


def failure_to_raise(
    error: Exception, text: Json, settings: Settings,
    *, process_id: str | None = None, key: str | None = None, seq: int | None = None,
) -> Exception:  # fmt: skip
    """Return ``error`` if a replay raises the same class, else the exception that a replay raises.

    So the code gets the same exception in both runs. An exception with a masked secret does not have ``error``, with
    the secret, as its cause.
    """
    again = recorded_failure(text, process_id=process_id, key=key, seq=seq)
    had_secret = _held_secret(error, settings)
    if type(again) is type(error) and not had_secret:
        return error
    again.__cause__ = None if had_secret else error
    return again.with_traceback(error.__traceback__) if had_secret else again


def _held_secret(error: Exception, settings: Settings) -> bool:
    if not settings.secrets():
        return False
    bare = Settings()
    return (full_message(error), _data(error, bare)) != (settings.scrub(full_message(error)), _data(error, settings))


def error_name(error: BaseException, settings: Settings) -> str:
    """Return the name of the class as Python shows it: ``module.Name``, or a builtin's name alone."""
    module, _, path = class_name(type(error)).partition(":")
    return settings.scrub(path if module == "builtins" else f"{module}.{path}")


def _data(error: BaseException, settings: Settings) -> dict[str, Any]:
    if isinstance(error, SeekpointError):
        facts = [*_fitting(error.facts, settings).items()]
        return {"facts": facts, "hint": settings.excerpt(error.hint, TEXT_CHARACTERS_MAX)}
    data: dict[str, Any] = {}
    data |= _fitting({"args": error.args}, settings)
    if attributes := _fitting(getattr(error, "__dict__", {}), settings):
        data["attributes"] = attributes
    return data


def _fitting(values: dict[str, Any], settings: Settings) -> dict[str, Any]:
    plain = {name: value for name, value in values.items() if not name.startswith("__") and _fits(value)}
    scrubbed = plain if not settings.secrets() else settings.scrub_value(plain)
    return {name: value for name, value in scrubbed.items() if _fits(value)}


def _fits(value: object) -> bool:
    try:
        return len(dump(value)) <= _DATA_CHARACTERS_MAX
    except (UnserializableValue, LimitExceeded):
        return False
