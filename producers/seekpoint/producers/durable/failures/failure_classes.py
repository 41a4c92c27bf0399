"""Look up the exception class of a recorded failure: a builtin, one of Seekpoint's own, or a registered one.

A name in a journal or a capture is looked up among these only. It never causes an import, and a user's constructor
never runs on recorded arguments: anybody who can write to the journal may have chosen the name and the arguments.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from seekpoint.schemas import errors
from seekpoint.schemas.errors import HandleLost, Refused, ReplayDivergence, SeekpointError

__all__ = ["class_name", "class_named", "rebuilt", "register_failure"]

E = TypeVar("E", bound=type[Exception])

_registered: dict[str, type[Exception]] = {}
_NEVER = (HandleLost, ReplayDivergence)
"""Errors of the current handle and the current code, which a record cannot know."""


def register_failure(kind: E) -> E:
    """Let recorded failures of this exception class be raised as this class again; returns it, to be a decorator.

    Without it a step, an effect or a child that fails with the class raises ``StepFailed``, in the first run as in
    every replay. Builtin exceptions and Seekpoint's own need no registration. Register where the class is imported,
    in every program that runs the agent::

        @register_failure
        class Declined(Exception): ...

        register_failure(httpx.TimeoutException)

    A rebuilt exception has the recorded ``args`` and those attributes that JSON can carry. Its ``__init__`` and
    ``__new__`` are not called. Subclasses are registered one by one. Raises ``Refused`` for what is no subclass of
    ``Exception``, and for a class that a function defines.
    """
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise Refused(
            "only a subclass of Exception can be registered as a failure", found=repr(kind)[:80],
            hint="SystemExit, KeyboardInterrupt and the like are recorded as a RuntimeError that says so",
        )  # fmt: skip
    name = class_name(kind)
    if "<" in name:
        raise Refused(
            "a class that a function defines cannot be registered as a failure", type=name,
            hint="define it at the top level of its module",
        )  # fmt: skip
    _registered[name] = kind  # a module that is loaded again registers its new class
    return kind


def class_name(kind: type[BaseException]) -> str:
    """Return the name of the class in a journal: ``module:qualname``.

    >>> class_name(ValueError)
    'builtins:ValueError'
    """
    return f"{kind.__module__}:{kind.__qualname__}"


def class_named(name: str) -> type[Exception] | None:
    """Return the class of this name in a journal, if failures may be rebuilt as it."""
    module, _, path = name.partition(":")
    found: Any = _registered.get(name)
    if module == "builtins":
        found = vars(builtins).get(path)
    elif module == errors.__name__ and path in errors.__all__:
        found = vars(errors)[path]
    if not (isinstance(found, type) and issubclass(found, Exception)) or issubclass(found, _NEVER):
        return None
    return found


def rebuilt(kind: type[Exception], message: str, data: Mapping[str, Any]) -> Exception | None:
    """Return an exception of ``kind`` with the recorded state; None if the record does not fit the class.

    Only the constructor of the class's builtin base is called. Attributes are written to ``__dict__``, without
    properties and ``__setattr__``; none hides a method or an attribute that a builtin base defines.
    """
    base: Any = next(one for one in kind.__mro__ if vars(builtins).get(one.__name__) is one)
    arguments = data.get("args", (message,))
    try:
        if issubclass(kind, SeekpointError):
            facts = {str(name): value for name, value in data.get("facts", ())}
            return kind.restored(message, facts.pop("hint", None) or data.get("hint"), facts)
        made: Exception = base.__new__(kind, *arguments)
        base.__init__(made, *arguments)
        attributes = data.get("attributes", {}).items()
        made.__dict__.update({name: value for name, value in attributes if _is_free(kind, base, name)})
    except Exception:  # the record is damaged, or of another class
        return None
    return made


def _is_free(kind: type[Exception], base: type[Exception], name: Any) -> bool:
    if not isinstance(name, str) or name.startswith("__") or hasattr(base, name):
        return False
    return not inspect.isroutine(inspect.getattr_static(kind, name, None))
