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

__all__ = ["class_name", "class_named", "rebuilt", "register_failure", "state_of"]

E = TypeVar("E", bound=type[Exception])

_registered: dict[str, type[Exception]] = {}
_NEVER = (HandleLost, ReplayDivergence)
"""Errors of the current handle and the current code, which a record cannot know."""
_SPAN = ("object", "start", "end", "reason")
_MEMBERS: Mapping[type[Exception], tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2", "characters_written"),
    ImportError: ("msg", "name", "path", "name_from"),
    AttributeError: ("name",),
    NameError: ("name",),
    StopIteration: ("value",),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset"),
    UnicodeDecodeError: ("encoding", *_SPAN),
    UnicodeEncodeError: ("encoding", *_SPAN),
    UnicodeTranslateError: _SPAN,
}
"""The builtins that keep more than ``args``, with the members that are rebuilt, in the order of their arguments.

All other such builtins (groups, what a later Python adds) are not rebuilt.
"""
_BY_POSITION: Mapping[type[Exception], int] = {OSError: 2, ImportError: 1, AttributeError: 0, NameError: 0}
"""How many arguments the constructor takes as members; of a class that is not here, all."""
_LINES_MAX, _COLUMNS_MAX = 10_000_000, 10_000
"""The largest numbers of a recorded SyntaxError: a traceback prints as many spaces and marks as its columns say."""


def register_failure(kind: E) -> E:
    """Let recorded failures of this exception class be raised as this class again; returns it, to be a decorator.

    Without it a step, an effect or a child that fails with the class raises ``StepFailed``, in the first run as in
    every replay. Builtin exceptions and Seekpoint's own need no registration. Register where the class is imported,
    in every program that runs the agent::

        @register_failure
        class Declined(Exception): ...

        register_failure(httpx.TimeoutException)

    A rebuilt exception has the recorded ``args`` and those attributes that JSON can carry. Its ``__init__`` and
    ``__new__`` are not called. The first run raises the rebuilt exception too where the original has more than that.
    Subclasses are registered one by one. Raises ``Refused`` for what is no subclass of
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

    No constructor is called: C code of some builtins trusts what it is given. Attributes are written to ``__dict__``,
    without properties and ``__setattr__``; none hides a method or an attribute that a builtin base defines.
    """
    try:
        if issubclass(kind, SeekpointError):
            facts = {str(name): value for name, value in data.get("facts", ())}
            return kind.restored(message, facts.pop("hint", None) or data.get("hint"), facts)
        base, names = _base_of(kind)
        arguments = tuple(data.get("args", (message,)))
        members = _members(base, names, arguments, data.get("members"))
        made: Exception = base.__new__(kind)
        if "args" not in data and "object" in members:  # a text that JSON does not carry is among them
            arguments = tuple(members.values())
        BaseException.__setattr__(made, "args", arguments)
        for name, value in members.items():
            getattr(base, name).__set__(made, value)
        for name, value in data.get("attributes", {}).items():
            if _is_free(kind, base, name):
                slot = inspect.getattr_static(kind, name, None)
                slot.__set__(made, value) if inspect.ismemberdescriptor(slot) else made.__dict__.update({name: value})
    except Exception:  # the record is damaged, or of another class
        return None
    return made


def state_of(error: BaseException) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a builtin class keeps of ``error`` beside its ``args``, and the attributes that other code set."""
    kind = type(error)
    names = [name for one, names in _MEMBERS.items() if isinstance(error, one) for name in names]
    slots = [name for one in kind.__mro__ for name in _slots(one) if hasattr(error, name)]
    attributes = {**{name: getattr(error, name) for name in slots}, **getattr(error, "__dict__", {})}
    return (
        {name: getattr(error, name, None) for name in names},
        {name: value for name, value in attributes.items() if not name.startswith("__")},
    )


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _base_of(kind: type[BaseException]) -> tuple[Any, tuple[str, ...]]:
    """Return the builtin that decides the layout of ``kind``, and its members. ``ValueError`` if it is not allowed."""
    base = max((one for one in kind.__mro__ if vars(builtins).get(one.__name__) is one), key=_size)
    if _size(base) == _size(BaseException):
        return base, ()
    names = next((names for one, names in _MEMBERS.items() if issubclass(base, one)), None)
    if names is None:
        raise ValueError(f"a {base.__name__} is not rebuilt")
    return base, tuple(name for name in names if hasattr(base, name))


def _size(kind: type) -> int:
    return kind.__basicsize__


def _members(base: Any, names: tuple[str, ...], arguments: tuple[Any, ...], members: Any) -> dict[str, Any]:
    """Return the members to set. Raise ``ValueError`` for those that C code, or a traceback, must not be given."""
    if members is None:  # of a failure that was recorded without them: what the constructor makes of its arguments
        if issubclass(base, SyntaxError) and len(arguments) == 2:
            arguments = (arguments[0], *arguments[1])
        taken = next((count for one, count in _BY_POSITION.items() if issubclass(base, one)), len(arguments))
        members = dict(zip(names, arguments, strict=False)) if len(arguments) == taken else {}
    found = {name: members[name] for name in names if members.get(name) is not None}
    if issubclass(base, SyntaxError):
        is_safe = all(type(found.get(name, "")) is str for name in ("msg", "filename", "text"))
        is_safe &= all(_is_within(found.get(name, 0), -1, _LINES_MAX) for name in ("lineno", "end_lineno"))
        is_safe &= all(_is_within(found.get(name, 0), -1, _COLUMNS_MAX) for name in ("offset", "end_offset"))
    elif "object" in names:  # of a UnicodeError: its str() reads the object at these positions
        text = found["object"]
        if type(text) is bytes and not issubclass(base, UnicodeDecodeError):  # a text that is not encodable
            text = found["object"] = text.decode("utf-8", "surrogatepass")
        is_safe = type(text) is (bytes if issubclass(base, UnicodeDecodeError) else str)
        is_safe &= all(type(found[name]) is str for name in ("encoding", "reason") if name in names)
        is_safe &= _is_within(found["start"], 0, len(text)) and _is_within(found["end"], found["start"], len(text))
    else:
        is_safe = True
    if not is_safe:
        raise ValueError(f"no {base.__name__} has such members")
    return found


def _is_within(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_free(kind: type[Exception], base: type[Exception], name: Any) -> bool:
    if not isinstance(name, str) or name.startswith("__") or hasattr(base, name):
        return False
    return not inspect.isroutine(inspect.getattr_static(kind, name, None))
