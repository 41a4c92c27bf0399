"""Which calls an exception is the failure of: each that is raised to an agent's code carries its call's key. Pure."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

__all__ = ["failed_calls", "is_remembered", "is_tagged", "tagged"]

E = TypeVar("E", bound=BaseException)

_KEY = "__seekpoint_key__"
_REMEMBERED = "__seekpoint_remembered__"
_DEPTH_MAX = 50


def tagged(error: E, key: str, *, remembered: bool = False) -> E:
    """``error``, which the call ``key`` raises to the code, so that ``failed_calls`` finds it.

    ``remembered`` says that the call was not made: the error is made of its record.
    """
    with suppress(Exception):  # a class that takes no attributes
        setattr(error, _KEY, key)
        setattr(error, _REMEMBERED, remembered)
    return error


def is_remembered(error: BaseException) -> bool:
    """Whether ``error`` itself was made of the record of a call, so that its traceback does not lead to its origin."""
    return getattr(error, _REMEMBERED, None) is True


def is_tagged(error: BaseException) -> bool:
    """Whether ``error`` itself is what a call raised to the code, not one that the code raised from it."""
    return isinstance(getattr(error, _KEY, None), str)


def failed_calls(error: BaseException | None, depth: int = 0) -> list[str]:
    """The keys of the calls that ``error`` is the failure of: its own, its group's, else of what it was raised from."""
    if error is None or depth > _DEPTH_MAX:
        return []
    key = getattr(error, _KEY, None)
    if isinstance(key, str):
        return [key]
    if isinstance(error, BaseExceptionGroup):
        found = [key for one in error.exceptions for key in failed_calls(one, depth + 1)]
        return list(dict.fromkeys(found))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return failed_calls(before, depth + 1)
