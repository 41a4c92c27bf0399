"""Write a failure as JSON, and rebuild the exception from it.

The JSON has the class as ``module:qualname``, the message, the notes, the causes, and those arguments and attributes
that JSON carries exactly. An exception of Seekpoint's own keeps its facts and its hint. The failure of an effect also
says whether certainly nothing was done. The secrets of the settings are masked. The exception is rebuilt as its own
class if that is a builtin, Seekpoint's own, or registered.

The first run raises what a replay raises: the exception itself only if the one that is rebuilt looks the same to code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from seekpoint.producers.durable.failures.failure_classes import class_name, class_named, rebuilt, state_of
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.config.error_texts import TEXT_CHARACTERS_MAX, message_of
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    AppendTimeout,
    BudgetExceeded,
    Cancelled,
    ConfirmTimeout,
    EffectHeld,
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

_NO_FAILURES = (
    HandleLost, ReplayDivergence, EffectHeld, RecordedValueInvalid, AppendTimeout, ConfirmTimeout, EffectUnknown,
    BudgetExceeded, Cancelled,
)  # fmt: skip
"""The process has ended, its code is wrong, or a person has to decide: the call itself stays in doubt."""
_UNDONE, _UNSENT = "undone", "unsent"
_EXACT = "exact"
"""The mark of a failure whose ``StepFailed`` has the same text in each run; records without it are older."""
_DATA_CHARACTERS_MAX = 16_000
_CAUSES_MAX = 3
"""How many causes of causes are recorded."""


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
    return _dumped({**_failure(error, settings), "retryable": retryable, _EXACT: True}, limits)


def _failure(error: BaseException, settings: Settings, depth: int = 0) -> dict[str, Any]:
    failure: dict[str, Any] = {
        "type": _type_name(class_name(type(error)), settings),
        "message": message_of(error, settings),
        "data": _data(error, settings),
    }
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth < _CAUSES_MAX:
        name = "context" if error.__cause__ is None else "cause"
        failure[name] = _failure(cause, settings, depth + 1)
    if error.__suppress_context__ and cause is None:
        failure["suppress"] = True
    return failure


def _type_name(name: str, settings: Settings) -> str:
    """Return the name of a class, masked unless failures can be rebuilt as it."""
    return name if class_named(name) is not None else settings.scrub(name)


def _dumped(failure: dict[str, Any], limits: Limits = DEFAULT_LIMITS) -> Json:
    """Return the text; without data and causes where it would fill an entry with them."""
    with suppress(LimitExceeded, UnserializableValue):
        text = dump(failure, limits)
        if len(text.encode()) <= limits.record_bytes // 4:
            return text
    return dump({**failure, "data": None, "cause": None, "context": None}, limits)


def scrubbed_failure(failure: Json, settings: Settings, is_proof: bool = True) -> Json:
    """Return a failure that another program wrote, without the secrets of ``settings``.

    Without ``is_proof``, also without the mark that nothing was sent.
    """
    found = _loaded(failure)
    if not is_proof:
        found.pop(_UNSENT, None)
    scrubbed = {name: settings.scrub_value(one) for name, one in found.items()}
    return _dumped({**scrubbed, "type": _type_name(str(found.get("type", "")), settings), _EXACT: True})


def exact_failure(failure: Json) -> Json:
    """Return a failure that another process recorded, marked that its calls are not those of this one."""
    return _dumped({**_loaded(failure), _EXACT: True})


def mark_undone(failure: Json, *, is_unsent: bool = False) -> Json:
    """Return the failure of an effect, marked that certainly nothing was done; ``is_unsent``: nor was anything sent.

    ``may_be_redriven`` reads the marks.
    """
    return _dumped({**_loaded(failure), _UNDONE: True, **({_UNSENT: True} if is_unsent else {})})


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
    if failure.get(_EXACT) is True:  # older records show process and seq in the text, which differ in a fork
        process_id = seq = None
    name, message = str(failure.get("type", "")), str(failure.get("message", ""))
    return _rebuilt(failure) or _with_rest(
        StepFailed(message or name, type=name, process_id=process_id, key=key, seq=seq), failure
    )


def _rebuilt(failure: dict[str, Any], depth: int = 0) -> Exception | None:
    kind, data = class_named(str(failure.get("type", ""))), failure.get("data")
    if kind is None:
        return None
    made = rebuilt(kind, str(failure.get("message", "")), data if isinstance(data, dict) else {})
    return None if made is None else _with_rest(made, failure, depth)


def _with_rest(made: Exception, failure: dict[str, Any], depth: int = 0) -> Exception:
    """Put the recorded notes and causes to the exception."""
    data = failure.get("data")
    notes = data.get("notes") if isinstance(data, dict) else None
    if isinstance(notes, list):
        vars(made)["__notes__"] = [str(note) for note in notes]
    causes = {}
    if depth < _CAUSES_MAX:
        causes = {name: _rebuilt_cause(failure.get(name), depth + 1) for name in ("context", "cause")}
    suppress = causes.get("cause") is not None or failure.get("suppress") is True
    for name, value in (*causes.items(), ("suppress_context", suppress)):
        BaseException.__setattr__(made, f"__{name}__", value)  # no code of a user's class runs
    return made


def _rebuilt_cause(failure: Any, depth: int) -> Exception | None:
    """Return a cause; a plain ``Exception`` that names the class where that is not rebuilt."""
    if not isinstance(failure, dict):
        return None
    name = str(failure.get("type", "")).replace(":", ".")
    unknown = Exception(f"{name}: {failure.get('message', '')}")
    return _rebuilt(failure, depth) or _with_rest(unknown, failure, depth)


def recorded_line(text: Json) -> str:
    """Return ``CLASS: message`` of a recorded failure."""
    return f"{re.split('[:.]', str(_loaded(text).get('type', '')))[-1]}: {recorded_message(text)}"


def recorded_message(text: Json) -> str:
    """Return the message in a recorded failure; the rebuilt exception may have less of it."""
    return str(_loaded(text).get("message", ""))


def failure_to_raise(error: Exception, text: Json, key: str | None = None) -> Exception:
    """Return what a replay raises, or ``error`` itself if code sees no difference between the two.

    They differ in what JSON cannot carry, a masked secret, a class that is not registered. What a replay raises has the
    traceback of ``error``. Raise it where no exception is being handled: that would become its context.
    """
    again = recorded_failure(text, key=key)
    if _looks_alike(error, again):
        return error
    made: BaseException | None = again
    original: BaseException | None = error
    while made is not None and original is not None:
        made.with_traceback(original.__traceback__)
        made, original = made.__cause__ or made.__context__, original.__cause__ or original.__context__
    return again


def _looks_alike(error: BaseException | None, other: BaseException | None, depth: int = 0) -> bool:
    """Whether code sees no difference between two exceptions, their notes and causes included."""
    if error is None or other is None or depth > _CAUSES_MAX:
        return error is other
    if type(error) is not type(other) or error.__suppress_context__ is not other.__suppress_context__:
        return False
    try:
        if (str(error), repr(error)) != (str(other), repr(other)):
            return False
    except Exception:  # of a user's class
        return False
    return (
        _is_equal(_shown(error), _shown(other))
        and _looks_alike(error.__cause__, other.__cause__, depth + 1)
        and _looks_alike(error.__context__, other.__context__, depth + 1)
    )


def _shown(error: BaseException) -> list[Any]:
    """Return what code can read of an exception."""
    if isinstance(error, SeekpointError):
        return [error.args, error.message, error.hint, error.facts, getattr(error, "__notes__", [])]
    return [error.args, *state_of(error), getattr(error, "obj", None), getattr(error, "__notes__", [])]


def _is_equal(value: Any, other: Any) -> bool:
    """Whether two values are equal, of the same types, with dicts in the same order."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return list(value) == list(other) and all(_is_equal(value[name], other[name]) for name in value)
    if isinstance(value, list | tuple):
        return len(value) == len(other) and all(map(_is_equal, value, other))
    return bool(value == other)


def error_name(error: BaseException, settings: Settings) -> str:
    """Return the name of the class as Python shows it: ``module.Name``, or a builtin's name alone."""
    module, _, path = class_name(type(error)).partition(":")
    return settings.scrub(path if module == "builtins" else f"{module}.{path}")


def _data(error: BaseException, settings: Settings) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if notes := getattr(error, "__notes__", None):
        data |= _fitting({"notes": [settings.excerpt(str(note), TEXT_CHARACTERS_MAX) for note in notes]}, settings)
    if isinstance(error, SeekpointError):
        facts = [*_fitting(error.facts, settings).items()]
        return {**data, "facts": facts, "hint": settings.excerpt(error.hint, TEXT_CHARACTERS_MAX)}
    data |= _fitting({"args": error.args}, settings)
    members, attributes = state_of(error)
    if type(members.get("object")) is str and not _fits(members["object"]):  # it is not encodable
        members["object"] = members["object"].encode("utf-8", "surrogatepass")
    if members:
        data["members"] = _fitting(members, settings)
    if attributes := _fitting(attributes, settings):
        data["attributes"] = attributes
    return data


def _fitting(values: dict[str, Any], settings: Settings) -> dict[str, Any]:
    plain = {name: value for name, value in values.items() if _fits(value)}
    scrubbed = plain if not settings.secrets() else settings.scrub_value(plain)
    return {name: value for name, value in scrubbed.items() if _fits(value)}


def _fits(value: object) -> bool:
    try:
        return len(dump(value)) <= _DATA_CHARACTERS_MAX
    except (UnserializableValue, LimitExceeded):
        return False
