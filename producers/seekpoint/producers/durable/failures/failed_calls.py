"""Which calls an exception is the failure of: each that is raised to an agent's code carries its call's key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from seekpoint.producers.durable.replay.scopes import parent_scope

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.scopes import Scope
    from seekpoint.schemas.state.calls import Call

__all__ = ["failed_calls", "is_tagged", "remembered_as", "tagged", "unfollowed_calls"]

E = TypeVar("E", bound=BaseException)

_KEY = "__seekpoint_key__"
_ASKED = "__seekpoint_asked__"
_REMEMBERED = "__seekpoint_remembered__"
_DEPTH_MAX = 50


def tagged(error: E, key: str, scope: Scope | None = None, *, remembered: str | None = None) -> E:
    """``error``, which the call ``key`` of ``scope`` raises to the code, so that ``failed_calls`` finds it.

    ``remembered`` is the recorded failure that the error was made of, where the call was not made.
    """
    with suppress(Exception):  # a class that takes no attributes
        setattr(error, _KEY, key)
        setattr(error, _ASKED, _asked_so_far(scope))
        setattr(error, _REMEMBERED, remembered)
    return error


def _asked_so_far(scope: Scope | None) -> dict[str, int]:
    """How many calls ``scope`` and those around it have, by prefix."""
    found: dict[str, int] = {}
    while scope is not None:
        if scope.prefix is not None:
            found[scope.prefix] = scope.position
        scope = scope.parent
    return found


def remembered_as(error: BaseException) -> str | None:
    """Return the recorded failure that ``error`` was made of: its traceback does not lead to where that came from."""
    found = getattr(error, _REMEMBERED, None)
    return found if isinstance(found, str) else None


def is_tagged(error: BaseException) -> bool:
    """Whether ``error`` itself is what a call raised to the code, not one that the code raised from it."""
    return isinstance(getattr(error, _KEY, None), str)


def failed_calls(error: BaseException | None) -> list[str]:
    """The keys of the calls that ``error`` is the failure of: its own, its group's, else of what it was raised from."""
    return list(dict.fromkeys(getattr(one, _KEY) for one in _tagged_in(error)))


def unfollowed_calls(error: BaseException, calls: Mapping[str, Call]) -> list[str]:
    """Those of them behind whose failure the code asked for nothing more, as far as ``calls`` remember.

    What it asked for may be what it did about the failure: code in which the call succeeds would not ask for it.
    """
    found = [one for one in _tagged_in(error) if not _is_followed(getattr(one, _ASKED, {}), calls)]
    return list(dict.fromkeys(getattr(one, _KEY) for one in found))


def _is_followed(asked: Mapping[str, int], calls: Mapping[str, Call]) -> bool:
    return any(call.position > asked.get(parent_scope(key), call.position) for key, call in calls.items())


def _tagged_in(error: BaseException | None, depth: int = 0) -> list[BaseException]:
    if error is None or depth > _DEPTH_MAX:
        return []
    if is_tagged(error):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        return [found for one in error.exceptions for found in _tagged_in(one, depth + 1)]
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return _tagged_in(before, depth + 1)
