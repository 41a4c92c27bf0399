"""Users' folds: pure functions that reduce the custom entries of a process to a value. States contain the results.

    @fold("spent", initial=0)
    def spent(value, kind, payload):
        return value + payload["cents"] if kind == "paid" else value

A reader that has registered the function computes the result. Another reader leaves the result as it was. Each result
has the number of custom entries that it includes, so that nobody takes an old result for a current one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import localcontext
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec.structs import replace

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import FoldUnavailable, InvalidSetting, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.mask_shapes import json, text
from seekpoint.schemas.state.state_values import Count, StateValue
from seekpoint.schemas.values.decimal_arithmetic import DEFAULT_CONTEXT
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import Draft

__all__ = [
    "FOLDS_MAX",
    "FOLD_BYTES_MAX",
    "Folded",
    "UserFold",
    "advance_folds",
    "fold",
    "fold_problem",
    "folded",
    "import_folds",
    "only",
    "registered",
    "stale_folds",
]

FOLD_BYTES_MAX = 16_384
"""The most bytes of one result's text. A state with all results still fits into a checkpoint."""
FOLDS_MAX = 16
"""How many folds may be registered, and how many results one process keeps."""

Function = Callable[[Any, str, Any], Any]
"""(value, kind, payload) -> the next value. Pure: it uses no clock, no random number and no other state."""
_F = TypeVar("_F", bound=Function)


class Folded(StateValue, frozen=True):
    """The result of one fold for the custom entries of a process so far."""

    version: int
    customs: Count
    """How many of them it has seen: fewer than the process has, and it is behind."""
    value_json: Annotated[Json, json("folds", "*")]
    failed_seq: int | None = None
    """The entry that its function could not fold; it stays so until there is a new version."""
    failure: Annotated[str | None, text("error")] = None


class UserFold(FrozenStruct, frozen=True):
    """A registered fold."""

    name: str
    version: int
    initial_json: Json
    function: Function

    def after(self, found: Folded, seq: int, kind: str, payload_json: Json) -> Folded:
        """Return the result after one more custom entry. If the function raises, the result records that."""
        customs = found.customs + 1
        if found.failed_seq is not None:
            return replace(found, customs=customs)
        try:
            with localcontext(DEFAULT_CONTEXT):
                text = dump(self.function(load(found.value_json), kind, load(payload_json)))
            if len(text.encode()) > FOLD_BYTES_MAX:
                raise OverflowError
        except Exception as exc:  # a stranger's code: its message may name addresses, and every reader must agree
            return Folded(self.version, customs, found.value_json, seq, type(exc).__name__)
        return Folded(self.version, customs, text)


_registered: dict[str, UserFold] = {}


def fold(name: str, *, version: int = 1, initial: Any = None) -> Callable[[_F], _F]:
    """Register a pure function (value, kind, payload) -> value under ``name``; ``initial`` is the first value.

    It sees the process's applied custom entries in order; rewinding takes none back, a fork starts anew. Another
    ``version`` (raise it when the function changes) is folded anew from the log. Values are JSON, at most 16 KiB.
    A function that raises fails its own result from that entry on, and nothing else. ``InvalidSetting`` for a name
    that is taken by another function, or a version or a number of folds that is none.
    """
    if not name or len(name) > 200 or type(version) is not int or version < 1:
        raise InvalidSetting("a fold has a name of 1 to 200 characters and a version from 1 on", fold=name)
    initial_json = dump(initial)
    if len(initial_json.encode()) > FOLD_BYTES_MAX:
        raise InvalidSetting(f"a fold's value takes at most {FOLD_BYTES_MAX} bytes", fold=name)

    def register(function: _F) -> _F:
        known = _registered.get(name)
        if known is not None and _place(known.function) != _place(function):
            raise InvalidSetting("two folds of one name", fold=name, hint="give one of them another name")
        if known is None and len(_registered) >= FOLDS_MAX:
            raise InvalidSetting(f"no more than {FOLDS_MAX} folds may be registered", fold=name)
        _registered[name] = UserFold(name, version, initial_json, function)
        return function

    return register


def _place(function: Function) -> tuple[str, str]:
    """Return where a function is defined: a module that is loaded again may register it again."""
    return function.__module__, getattr(function, "__qualname__", repr(function))


def registered() -> Mapping[str, UserFold]:
    """Return the registered folds by name."""
    return _registered.copy()


@contextmanager
def only(*folds: UserFold) -> Iterator[None]:
    """Register only ``folds`` inside the block, in all threads, and the former ones after it. For tests and checks."""
    kept = _registered.copy()
    _registered.clear()
    _registered.update({one.name: one for one in folds})
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(kept)


def import_folds(modules: tuple[str, ...]) -> None:
    """Import modules that register folds. Raise ``InvalidSetting`` with the module that cannot be imported, and why."""
    for name in modules:
        try:
            import_module(name)
        except SeekpointError:
            raise
        except Exception as exc:  # a stranger's module may raise anything
            why = f"{type(exc).__name__}: {exc}"[:200]
            hint = "it must be installed, or be on PYTHONPATH"
            raise InvalidSetting(
                f"the module {name} cannot be imported for its folds: {why}", setting="folds", hint=hint
            ) from exc


def advance_folds(draft: Draft, seq: int, kind: str, payload_json: Json) -> None:
    """Apply one more custom entry to all results of the process that are current. Others stay as they are."""
    before = draft.customs
    draft.customs = before + 1
    if not _registered:
        return
    made = dict(draft.folds)
    for name, one in _registered.items():
        found = made.get(name)
        if found is None and len(made) < FOLDS_MAX:  # and there is nothing yet that it missed
            found = Folded(one.version, 0, one.initial_json)
        if found is not None and (found.version, found.customs) == (one.version, before):
            made[name] = one.after(found, seq, kind, payload_json)
    draft.folds = MappingProxyType(made)


def fold_problem(draft: Draft, one: UserFold) -> str | None:
    """Return why the result of ``one`` in ``draft`` is not current; None if it is, or if there was no custom entry."""
    if not draft.customs:  # also a finished process: nothing of it is left
        return None
    found = draft.folds.get(one.name)
    if found is None:
        return "it was not folded along"
    if found.version != one.version:
        return f"it is of version {found.version}, not {one.version}"
    if found.customs != draft.customs:
        return f"it has seen {found.customs} of {draft.customs} custom entries"
    return None


def stale_folds(draft: Draft) -> dict[str, str]:
    """Return the registered folds whose result is missing, old or of another version, with the reason, by name."""
    if not draft.customs or not _registered:
        return {}
    problems = {name: fold_problem(draft, one) for name, one in _registered.items()}
    return {name: why for name, why in problems.items() if why is not None}


def folded(draft: Draft, name: str) -> Any:
    """Return a fresh copy of the value of a registered fold. Raise ``FoldUnavailable`` if the result is not current."""
    one = _registered.get(name)
    if one is None:
        hint = "import its module here, or name it in the setting folds"
        raise FoldUnavailable("no fold of this name is registered here", fold=name, hint=hint)
    if draft.finished:
        raise FoldUnavailable("of a finished process only its result is left", fold=name, seq=draft.seq)
    problem = fold_problem(draft, one)
    if problem is not None:
        raise FoldUnavailable(f"what is kept of the fold is not current: {problem}", fold=name, version=one.version)
    found = draft.folds.get(name)
    if found is None:
        return load(one.initial_json)
    if found.failed_seq is not None:
        raise FoldUnavailable(
            f"its function failed at an entry ({found.failure})",
            fold=name, version=one.version, seq=found.failed_seq, failure=found.failure,
            hint="correct the function, raise its version",
        )  # fmt: skip
    return load(found.value_json)
