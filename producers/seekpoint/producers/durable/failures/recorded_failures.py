"""A failure as JSON, and the exception again: of the same class where that is builtin, Seekpoint's own or registered.

What is kept of an exception: its class as ``module:qualname``, its message, its arguments and attributes as far as JSON
carries them exactly. An exception of Seekpoint's own keeps its facts and its hint. The failure of an effect also says
whether for certain nothing was done. The secrets of the settings are masked in all of it.

This is the one place where the journal's texts about exceptions are made.
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
    "is_failure",
    "message_in",
    "remembered_failure",
    "same_failure",
    "says_undone",
    "scrubbed_failure",
    "undone",
    "unwrapped",
]

_NO_FAILURES = (HandleLost, ReplayDivergence, AppendTimeout, ConfirmTimeout, EffectUnknown, BudgetExceeded, Cancelled)
"""The process is over, its code is wrong, or a person has to look: the call itself stays in doubt."""
_UNDONE = "undone"
_DATA_CHARACTERS_MAX = 16_000


def is_failure(error: Exception) -> bool:
    """Whether ``error`` is what a call failed with, to be remembered; else the call stays in doubt."""
    return not isinstance(unwrapped(error), _NO_FAILURES)


def unwrapped(error: BaseException) -> BaseException:
    """``error``; of a group (a task group makes one of whatever its tasks raise) what in it is no failure, if any is.

    The first that counts: that the process is over comes before that nobody can tell of an effect, and so on.
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
    """``{"type", "message", "data", "retryable"}`` as JSON text; whatever the exception holds, it fits an entry.

    No secret of ``settings`` is in it.
    """
    return _dumped(_failure(error, settings, retryable), limits)


def _failure(error: BaseException, settings: Settings, retryable: bool) -> dict[str, Any]:
    return {
        "type": _type_name(class_name(type(error)), settings),
        "message": message_of(error, settings),
        "data": _data(error, settings),
        "retryable": retryable,
    }


def _type_name(name: str, settings: Settings) -> str:
    """Return the name of a class; a class that can be made again is code, and no secret."""
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


def undone(failure: Json) -> Json:
    """The failure of an effect, with the word that for certain nothing was done."""
    return _dumped({**_loaded(failure), _UNDONE: True})


def says_undone(failure: Json) -> bool:
    """Whether a failure carries that word."""
    return _loaded(failure).get(_UNDONE) is True


def _loaded(failure: Json) -> dict[str, Any]:
    """Return the failure as a dict; empty for a text that is none: anybody may have written it."""
    try:
        found = load(failure)
    except UndecodableRecord:
        return {}
    return found if isinstance(found, dict) else {}


def remembered_failure(text: Json, **facts: Any) -> Exception:
    """Return the exception of a recorded failure, new but of the same class; else ``StepFailed`` with its name.

    Only builtin, registered and Seekpoint's own classes are made (``failure_classes``), whatever the text says.
    """
    failure = _loaded(text)
    name, message, data = str(failure.get("type", "")), str(failure.get("message", "")), failure.get("data")
    kind = class_named(name)
    made = None if kind is None else rebuilt(kind, message, data if isinstance(data, dict) else {})
    return made or StepFailed(message or name, type=name, **facts)


def message_in(text: Json) -> str:
    """Return what the exception of a recorded failure said; the one that is made of it may say less."""
    return str(_loaded(text).get("message", ""))


def same_failure(error: Exception, text: Json, settings: Settings, **facts: Any) -> Exception:
    """Return ``error`` itself if a replay raises one of its class that says the same, else what a replay raises.

    So both runs see the same. What a secret was taken out of does not bring it back as its cause.
    """
    again = remembered_failure(text, **facts)
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
    """Return the class as Python shows it: ``module.Name``, and a builtin by its name alone."""
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
