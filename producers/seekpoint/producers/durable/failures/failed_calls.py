"""Find the calls that an exception is the failure of: a call tags each exception that it raises with its key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from seekpoint.producers.durable.replay.scopes import parent_scope

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.scopes import Scope
    from seekpoint.schemas.state.calls import Call

E = TypeVar("E", bound=BaseException)

_KEY = "__seekpoint_key__"
_POSITIONS = "__seekpoint_positions__"
_RECORDED = "__seekpoint_recorded__"
_DEPTH_MAX = 50


def tagged(error: E, key: str, scope: Scope | None = None, *, recorded: str | None = None) -> E:
    """Return ``error``, tagged as raised by the call ``key`` of ``scope``, for ``failed_calls``.

    ``recorded`` is the recorded failure that the error was rebuilt from, if the call was not made.
    """
    with suppress(Exception):  # a class that takes no attributes
        setattr(error, _KEY, key)
        setattr(error, _POSITIONS, _positions(scope))
        setattr(error, _RECORDED, recorded)
    return error


def _positions(scope: Scope | None) -> dict[str, int]:
    """Return how many calls ``scope``, the scopes around it and the branches beside it have so far, by prefix.

    The failure of a branch cancels those beside it: a call that one of them makes then is a further call, too.
    """
    found: dict[str, int] = {}
    beside: list[Scope] = []
    while scope is not None:
        if scope.prefix is not None:
            found[scope.prefix] = scope.position
        beside += scope.explicit_branches
        scope = scope.parent
    while beside:
        branch = beside.pop()
        found[branch.prefix or ""] = branch.position
        beside += branch.explicit_branches
    return found


def recorded_text(error: BaseException) -> str | None:
    """Return the recorded failure that ``error`` was rebuilt from: its own traceback does not show the origin."""
    found = getattr(error, _RECORDED, None)
    return found if isinstance(found, str) else None


def is_tagged(error: BaseException) -> bool:
    """Whether a call raised ``error`` itself to the code; False for an exception that the code raised from it."""
    return isinstance(getattr(error, _KEY, None), str)


def failed_calls(error: BaseException | None) -> list[str]:
    """Return the keys of the calls that ``error``, its group's members, or else its cause come from."""
    return list(dict.fromkeys(getattr(one, _KEY) for one in _tagged_in(error)))


def unfollowed_calls(error: BaseException, calls: Mapping[str, Call]) -> list[str]:
    """Return the ``failed_calls`` after whose failure the code has made no further call, as far as ``calls`` has them.

    A further call may handle the failure: code in which the failed call succeeds would not make it.
    """
    found = [one for one in _tagged_in(error) if not _is_followed(getattr(one, _POSITIONS, {}), calls)]
    return list(dict.fromkeys(getattr(one, _KEY) for one in found))


def _is_followed(positions: Mapping[str, int], calls: Mapping[str, Call]) -> bool:
    return any(call.position > positions.get(parent_scope(key), call.position) for key, call in calls.items())


def _tagged_in(error: BaseException | None, depth: int = 0) -> list[BaseException]:
    if error is None or depth > _DEPTH_MAX:
        return []
    if is_tagged(error):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        return [found for one in error.exceptions for found in _tagged_in(one, depth + 1)]
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return _tagged_in(before, depth + 1)
