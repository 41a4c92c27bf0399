"""The differences of two states, and a state as a tree in which they are marked. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from seekpoint.console.web.data.state_sections import BOOKKEEPING, StateSection, sections_of
from seekpoint.console.web.json_texts import shortened
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import State

_CHARACTERS_MAX = 2_000
_CHILDREN_MAX = 60
_NODES_MAX = 2_500
_VALUE_BYTES_MAX = 16_384


class _Missing:
    """There is no value."""


_MISSING = _Missing()


class StateDifference(FrozenStruct, frozen=True, kw_only=True):
    """One value that differs."""

    path: list[str | int]
    """The section, the name of the item, and the way inside its value."""
    what: str
    """``added``, ``removed`` or ``changed``."""
    left: Any = None
    right: Any = None
    is_cut: bool = False
    """Whether a value was too long: then it is the beginning of its JSON, as text."""


def differences(left: State, right: State) -> Iterator[StateDifference]:
    """Yield what differs in the content and the ownership of two states, in the order in which a page shows them.

    Offsets, times and counters are not compared.
    """
    for one, other in zip(sections_of(left), sections_of(right), strict=True):
        for key in _changed(one, other):
            yield from _inside([one.name, key], _item(one, key), _item(other, key))


def path_text(path: Collection[str | int]) -> str:
    """Return a path as people write it.

    >>> path_text(["context", "order", "lines", 0, "a b"]), path_text(["calls", "charge:1", "status"])
    ('context.order.lines[0]["a b"]', 'calls["charge:1"].status')
    """
    return "".join(f".{one}" if str(one).isidentifier() else f"[{_json(one)}]" for one in path).removeprefix(".")


def _changed(one: StateSection, other: StateSection) -> list[Any]:
    """Return the keys whose items differ. Most items are the same object in both states."""
    left, right = one.items, other.items
    keys = [key for key, item in left.items() if (its := right.get(key, _MISSING)) is not item and its != item]
    return [*keys, *(key for key in right if key not in left)]


def _item(section: StateSection, key: Any) -> Any:
    return section.plain(section.items[key]) if key in section.items else _MISSING


def _inside(path: list[str | int], left: Any, right: Any) -> Iterator[StateDifference]:
    if isinstance(left, dict) and isinstance(right, dict):
        pairs: Any = [(key, left.get(key, _MISSING), right.get(key, _MISSING)) for key in left | right]
    elif isinstance(left, list) and isinstance(right, list):
        count = max(len(left), len(right))
        pairs = [(at, _at(left, at), _at(right, at)) for at in range(count)]
    else:
        if not _is_same(left, right):
            yield _difference(path, left, right)
        return
    for key, one, other in pairs:
        yield from _inside([*path, key], one, other)


def _at(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else _MISSING


def _is_same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)  # in Python 1 == True == 1.0


def _difference(path: list[str | int], left: Any, right: Any) -> StateDifference:
    what = "added" if left is _MISSING else "removed" if right is _MISSING else "changed"
    (one, is_one_cut), (other, is_other_cut) = _bounded(left), _bounded(right)
    return StateDifference(path=path, what=what, left=one, right=other, is_cut=is_one_cut or is_other_cut)


def _bounded(value: Any) -> tuple[Any, bool]:
    if value is _MISSING:
        return None, False
    text = orjson.dumps(value)
    if len(text) <= _VALUE_BYTES_MAX:
        return value, False
    return shortened(text.decode(), _CHARACTERS_MAX), True


# --- the tree ---------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class StateNode:
    """A value in the tree of a state."""

    name: str
    text: str = ""
    """Of a leaf: its JSON, shortened."""
    mark: str = ""
    """``added``, ``removed`` or ``changed``; of a value with children that of all of it."""
    was: str | None = None
    """Of a changed leaf: what it was."""
    count: str | None = None
    """Of an object or a list: how many items it has. None: it is a leaf."""
    children: list[StateNode] = field(default_factory=list)
    left_out: int = 0
    """How many children are not shown. None of them changed, unless very many did."""
    changes: int = 0
    """How many marked values are in it."""
    is_open: bool = False


def state_tree(before: State, after: State) -> list[StateNode]:
    """Return the sections of ``after`` as trees, with what changed since ``before`` marked and always shown."""
    maker = _NodeMaker()
    return [maker.section(one, other) for one, other in zip(sections_of(before), sections_of(after), strict=True)]


class _NodeMaker:
    """Makes nodes until there are enough for a page."""

    def __init__(self) -> None:
        self._left = _NODES_MAX

    def section(self, before: StateSection, after: StateSection) -> StateNode:
        """Return the tree of a section."""
        keys = [*after.items, *(key for key in before.items if key not in after.items)]
        shown = _shown(keys, _changed(before, after), newest=after.newest_first)
        made = StateNode(after.name, count=_count(after.items, is_list=after.is_list))
        for key in shown:
            made.children.append(self.node(str(key), _item(before, key), _item(after, key)))
        made.left_out = len(keys) - len(shown)
        made.changes = sum(one.changes for one in made.children)
        made.is_open = bool(after.items or made.changes) and (after.name != BOOKKEEPING)
        return made

    def node(self, name: str, before: Any, after: Any) -> StateNode:
        """Return the tree of a value."""
        self._left -= 1
        value = before if after is _MISSING else after
        if not (isinstance(value, dict | list) and value) or self._left <= 0:
            return _leaf(name, before, after)
        mark = _mark(before, after)
        if mark:  # all of it is new, is gone, or had another form: its parts are not compared
            old, new = (value, value) if mark != "changed" else (after, after)
        else:
            old, new = before, after
        made = self._container(name, old, new)
        if mark:
            made.mark, made.changes = mark, 1
            made.was = _text(before) if mark == "changed" else None
        return made

    def _container(self, name: str, before: Any, after: Any) -> StateNode:
        one, other = _pairs(before), _pairs(after)
        keys = [*other, *(key for key in one if key not in other)]
        changed = [key for key in keys if not _is_same(one.get(key, _MISSING), other.get(key, _MISSING))]
        shown = _shown(keys, changed, newest=False)
        made = StateNode(name, count=_count(after, is_list=isinstance(after, list)))
        for key in shown:
            made.children.append(self.node(str(key), one.get(key, _MISSING), other.get(key, _MISSING)))
        made.left_out = len(keys) - len(shown)
        made.changes = sum(child.changes for child in made.children)
        made.is_open = bool(made.changes) or len(keys) <= 12
        return made


def _leaf(name: str, before: Any, after: Any) -> StateNode:
    mark = _mark(before, after) or ("" if _is_same(before, after) else "changed")
    value = before if after is _MISSING else after
    was = _text(before) if mark == "changed" else None
    return StateNode(name, _text(value), mark, was, changes=int(bool(mark)))


def _mark(before: Any, after: Any) -> str:
    if before is _MISSING:
        return "added"
    if after is _MISSING:
        return "removed"
    return "changed" if type(before) is not type(after) else ""


def _pairs(value: Any) -> dict[Any, Any]:
    return dict(enumerate(value)) if isinstance(value, list) else value


def _shown(keys: list[Any], changed: Collection[Any], *, newest: bool) -> list[Any]:
    """Return the keys to show, in order: what changed, and of the others the newest or the first ones."""
    if len(keys) <= _CHILDREN_MAX:
        return keys
    chosen = set(islice(changed, _CHILDREN_MAX))
    chosen.update(keys[-_CHILDREN_MAX:] if newest else keys[:_CHILDREN_MAX])
    return [key for key in keys if key in chosen]


def _count(items: Mapping[Any, Any] | list[Any], *, is_list: bool) -> str:
    number = f"{len(items):,}"
    return f"[{number}]" if is_list else f"{{{number}}}"


def _text(value: Any) -> str:
    return shortened(_json(value), _CHARACTERS_MAX)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
