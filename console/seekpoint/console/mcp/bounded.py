"""Bound a document to a number of bytes: texts, lists and objects are cut, and every cut is named. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from seekpoint.console.mcp.tool_declarations import ToolFailed


class Cut(NamedTuple):
    """A value of which only a part is shown."""

    path: str
    """A JSON Pointer (RFC 6901)."""
    length: int
    """How many characters, items or keys the value has."""
    start: int
    """Where the shown part begins."""
    shown: int
    """How many of them are shown."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self._asdict()


class _ValueRoom(NamedTuple):
    """The room that each value may take in a result."""

    characters: int
    items: int
    depth: int


_WHOLE = _ValueRoom(2**62, 2**62, 2**62)
_ROOMS = (
    _WHOLE,
    *(_ValueRoom(16_000, 500, 32), _ValueRoom(4_000, 250, 20), _ValueRoom(1_500, 120, 14), _ValueRoom(600, 80, 10)),
    *(_ValueRoom(250, 60, 8), _ValueRoom(120, 40, 7), _ValueRoom(80, 25, 6), _ValueRoom(40, 15, 5)),
    *(_ValueRoom(20, 8, 4), _ValueRoom(12, 4, 3)),
)
"""Tried in this order until the document fits."""
_ROOT_ITEMS_MIN = 60
"""The fields of a document itself are not cut."""
_KEY_CHARACTERS_MAX = 300
"""An object's member with a longer name is left out of what is cut."""


def bounded(value: Any, bytes_max: int, *, path: str = "", start: int = 0) -> tuple[Any, list[Cut]]:
    """Return ``value``, from ``start`` on, with at most ``bytes_max`` bytes as JSON, and what was cut.

    ``start`` counts characters of a text, items of a list or keys of an object; ``path`` is where ``value`` is.

    >>> bounded({"a": "xxxx", "b": [1, 2]}, 100)
    ({'a': 'xxxx', 'b': [1, 2]}, [])
    >>> bounded({"a": "x" * 1000}, 300)[1]
    [Cut(path='/a', length=1000, start=0, shown=250)]
    """
    if isinstance(value, str):
        return _bounded_text(value, bytes_max, path, start)
    for room in _ROOMS:
        cuts: list[Cut] = []
        found = _cut(value, room, path, start, cuts, level=0)
        if len(orjson.dumps(found)) <= bytes_max:
            return found, cuts
    return type(value)(), [Cut(path, len(value), start, 0)]


def part_at(document: Any, path: str) -> Any:
    """Return the part of a document that a JSON Pointer names. Raises ``ToolFailed`` if there is none.

    >>> part_at({"a": [{"b/c": 1}]}, "/a/0/b~1c")
    1
    """
    found, at = document, ""
    if path and not path.startswith("/"):
        raise ToolFailed("InvalidArgument", f"{path!r} is no JSON Pointer", "begin it with /, such as /context/cart")
    for name in path.split("/")[1:]:
        step = name.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isascii() and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            raise ToolFailed(
                "InvalidArgument", f"the result has no part {path}", f"{at or 'the result'} has {_parts_of(found)}"
            )
        at += f"/{name}"
    return found


def _parts_of(value: Any) -> str:
    if isinstance(value, dict):
        return f"the keys {', '.join(map(str, list(value)[:20]))}" if value else "no keys"
    return f"{len(value)} items" if isinstance(value, list) else "no parts"


def _bounded_text(text: str, bytes_max: int, path: str, start: int) -> tuple[str, list[Cut]]:
    shown = text[start:]
    while len(orjson.dumps(shown)) > bytes_max:
        shown = shown[: min(len(shown) * 3 // 4, bytes_max)]
    return shown, [] if len(shown) == len(text) else [Cut(path, len(text), start, len(shown))]


def _cut(value: Any, room: _ValueRoom, path: str, start: int, cuts: list[Cut], level: int) -> Any:
    if isinstance(value, str):
        if len(value) <= room.characters:
            return value
        cuts.append(Cut(path, len(value), 0, room.characters))
        return f"{value[: room.characters]}…"
    if not isinstance(value, dict | list | tuple):
        return value
    items_max = max(room.items, _ROOT_ITEMS_MIN) if level == 0 and isinstance(value, dict) else room.items
    items_max = 0 if level >= room.depth else items_max
    stop = min(len(value), start + items_max)
    if start or stop < len(value):
        cuts.append(Cut(path, len(value), start, max(0, stop - start)))
    if not isinstance(value, dict):
        return [
            _cut(value[number], room, f"{path}/{number}", 0, cuts, level + 1)
            for number in range(start, max(start, stop))
        ]
    found = {}
    for name in list(value)[start:stop]:
        if len(name) > _KEY_CHARACTERS_MAX and room is not _WHOLE:
            cuts.append(Cut(f"{path}/{_escaped(name[:_KEY_CHARACTERS_MAX])}…", len(name), 0, 0))
            continue
        found[name] = _cut(value[name], room, f"{path}/{_escaped(name)}", 0, cuts, level + 1)
    return found


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
