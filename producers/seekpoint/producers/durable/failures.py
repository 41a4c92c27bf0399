"""A failure as JSON, and the same exception again: of the same class where that can be imported and made.

What is kept of an exception: its class as ``module:qualname``, its message, its arguments and attributes as far as JSON
carries them exactly. An exception of Seekpoint's own keeps its facts and its hint. The failure of an effect also says
whether for certain nothing was done.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import (
    AppendTimeout,
    BudgetExceeded,
    Cancelled,
    ConfirmTimeout,
    EffectUnknown,
    LimitExceeded,
    Reopen,
    ReplayDivergence,
    SeekpointError,
    StepFailed,
    UnserializableValue,
)
from seekpoint.schemas.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.values import dump, load

__all__ = [
    "failure_text",
    "is_failure",
    "message_of",
    "printable",
    "remembered_failure",
    "same_failure",
    "says_undone",
    "undone",
    "unwrapped",
]

_NO_FAILURES = (Reopen, ReplayDivergence, AppendTimeout, ConfirmTimeout, EffectUnknown, BudgetExceeded, Cancelled)
"""The process is over, its code is wrong, or a person has to look: the call itself stays in doubt."""
_UNDONE = "undone"
_MESSAGE_CHARACTERS_MAX = 4_000
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


def failure_text(error: BaseException, limits: Limits = DEFAULT_LIMITS, *, retryable: bool = False) -> Json:
    """``{"type", "message", "data", "retryable"}`` as JSON text; whatever the exception holds, it fits an entry."""
    kind = type(error)
    failure = {
        "type": f"{kind.__module__}:{kind.__qualname__}",
        "message": message_of(error),
        "data": _data(error),
        "retryable": retryable,
    }
    try:
        return dump(failure, limits)
    except LimitExceeded:
        return dump({**failure, "data": None}, limits)


def undone(failure: Json) -> Json:
    """The failure of an effect, with the word that for certain nothing was done."""
    told = {**load(failure), _UNDONE: True}
    try:
        return dump(told)
    except LimitExceeded:
        return dump({**told, "data": None})


def says_undone(failure: Json) -> bool:
    """Whether a failure carries that word."""
    return load(failure).get(_UNDONE) is True


def remembered_failure(text: Json, **facts: Any) -> Exception:
    """The exception of a recorded failure, new but of the same class; else ``StepFailed``, with type and message."""
    failure = load(text)
    name, message, data = failure.get("type", ""), failure.get("message", ""), failure.get("data") or {}
    kind = _class_named(name)
    made = None if kind is None else _made(kind, message, data)
    return made or StepFailed(message or name, type=name, **facts)


def same_failure(error: Exception, text: Json, **facts: Any) -> Exception:
    """``error`` itself if a replay would raise one of its class, else what a replay would: both runs see the same."""
    again = remembered_failure(text, **facts)
    if type(again) is type(error):
        return error
    again.__cause__ = error
    return again


def message_of(error: BaseException) -> str:
    """What an exception says, fit for an entry, whatever its ``__str__`` does."""
    try:
        text = error.message if isinstance(error, SeekpointError) else str(error)
    except Exception:  # a __str__ of the user's
        text = ""
    return printable(text, _MESSAGE_CHARACTERS_MAX)


def printable(text: str, characters_max: int) -> str:
    """The beginning of ``text``, as UTF-8 can carry it."""
    return text[:characters_max].encode("utf-8", "replace").decode()


def _data(error: BaseException) -> dict[str, Any]:
    if isinstance(error, SeekpointError):
        return {"facts": [*_fitting(error.facts).items()], "hint": printable(error.hint, _MESSAGE_CHARACTERS_MAX)}
    data: dict[str, Any] = {}
    if _fits(error.args):
        data["args"] = error.args
    if attributes := _fitting(getattr(error, "__dict__", {})):
        data["attributes"] = attributes
    return data


def _fitting(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not name.startswith("__") and _fits(value)}


def _fits(value: object) -> bool:
    try:
        return len(dump(value)) <= _DATA_CHARACTERS_MAX
    except (UnserializableValue, LimitExceeded):
        return False


def _class_named(name: str) -> type[Exception] | None:
    module, _, path = name.partition(":")
    if not module or "<" in path:
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception:  # whatever importing it raises: it is not to be had here
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _made(kind: type[Exception], message: str, data: dict[str, Any]) -> Exception | None:
    if issubclass(kind, SeekpointError):
        return kind(message, hint=data.get("hint"), **dict(data.get("facts", ())))
    arguments = data.get("args", (message,))
    made: Exception | None
    try:
        made = kind(*arguments)
    except Exception:  # its __init__ wants more than its args tell: pickle fails here, we go on without it
        made = _made_bare(kind, arguments)
    if made is not None:
        for name, value in data.get("attributes", {}).items():
            _put(made, name, value)
    return made


def _made_bare(kind: type[Exception], arguments: tuple[Any, ...]) -> Exception | None:
    try:
        made = kind.__new__(kind, *arguments)
        made.args = tuple(arguments)
    except Exception:
        return None
    return made


def _put(made: Exception, name: str, value: Any) -> None:
    try:
        setattr(made, name, value)
    except Exception:  # a property: its class makes it of the arguments
        return
