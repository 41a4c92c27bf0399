"""Texts that belong together: the pieces of a stream and neighbouring parts of a message, joined to be masked.

A model's stream has an address in pieces, each in a chunk of its own, so no single text has a match. The texts at one
path, in the items of lists, are the pieces of one text; where objects have an ``index`` (choices, blocks of content),
each index has a text of its own as well. Streams of ``models.stream_coding`` are read as the events that they mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

Names: TypeAlias = "tuple[str, ...]"
_TAGS = frozenset({"$tuple", "$set", "$frozenset", "$object"})


class Piece(NamedTuple):
    """A text in a value, where it is, and how to replace it."""

    names: Names
    indexes: tuple[int, ...]
    text: str
    put: Callable[[Any], None]
    is_coded: bool = False
    """Whether its path in the value is not that in its event."""


def pieces_of(holder: list[Any], names: Names, parsed: Callable[[str], Any]) -> list[Piece]:
    """Return the texts in the value that ``holder`` holds, in their order."""
    return list(_texts(holder[0], names, (), _setter(holder, 0), parsed))


def groups(pieces: list[Piece]) -> Iterator[list[int]]:
    """Yield the numbers of the pieces of each joined text."""
    by_path: dict[Any, list[int]] = {}
    for number, piece in enumerate(pieces):
        by_path.setdefault((piece.names, piece.indexes), []).append(number)
    by_names: dict[Names, list[int]] = {}
    for number, piece in enumerate(pieces):
        by_names.setdefault(piece.names, []).append(number)
    yield from (group for group in by_path.values() if len(group) > 1)
    yield from (
        group for group in by_names.values() if len(group) > 1 and len({pieces[at].indexes for at in group}) > 1
    )


def uncovered(first: int, last: int, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of a range no span covers. The spans are in order."""
    found = []
    for start, stop in spans:
        if first < min(start, last):
            found.append((first, min(start, last)))
        first = max(first, stop)
    return [*found, (first, last)] if first < last else found


def _texts(
    node: Any, names: Names, index: tuple[int, ...], put: Callable[[Any], None], parsed: Callable[[str], Any]
) -> Iterator[Piece]:
    if isinstance(node, str):
        inner = parsed(node)
        if not isinstance(inner, dict | list):
            yield Piece(names, index, node, put)
            return

        def kept(change: Callable[[Any], None]) -> Callable[[Any], None]:
            def put_inner(value: Any) -> None:
                change(value)
                put(json.dumps(inner, ensure_ascii=False, separators=(",", ":"), sort_keys=True))

            return put_inner

        for piece in _texts(inner, names, index, lambda _: None, parsed):
            yield piece._replace(put=kept(piece.put))
    elif isinstance(node, dict):
        index = (*index, *_indexes(node))
        for name, value in node.items():
            tagged = len(node) == 1 and name[:1] == "$"
            if not tagged or name in _TAGS:
                yield from _texts(value, names if tagged else (*names, name), index, _setter(node, name), parsed)
    elif isinstance(node, list):
        yield from _items(node, names, index, parsed)


def _items(items: list[Any], names: Names, index: tuple[int, ...], parsed: Callable[[str], Any]) -> Iterator[Piece]:
    event: Any = None
    paths: list[Any] = []
    for at, item in enumerate(items):
        values = item
        if isinstance(item, dict) and item.keys() == {"at", "values"} and event is not None:
            paths, values = item["at"], item["values"]
        if paths and isinstance(values, list) and len(values) == len(paths):
            try:
                coded = list(_coded(values, paths, event, names, index))
            except (LookupError, TypeError):  # data of a user that only look like a coded event
                coded = []
            if coded:
                yield from coded
                continue
        paths = []
        if isinstance(item, dict) and item.keys() == {"event"}:
            event = deepcopy(item["event"])
        yield from _texts(item, names, index, _setter(items, at), parsed)


def _coded(values: list[Any], paths: list[Any], event: Any, names: Names, index: tuple[int, ...]) -> Iterator[Piece]:
    for path, value in zip(paths, values, strict=True):
        _put_at(event, path, value)
    for number, (path, value) in enumerate(zip(paths, values, strict=True)):
        if isinstance(value, str):
            where = (*names, "event", *(step for step in path if isinstance(step, str)))
            yield Piece(where, (*index, *_along(event, path)), value, _setter(values, number), is_coded=True)


def _put_at(event: Any, path: list[Any], value: Any) -> None:
    for step in path[:-1]:
        event = event[step]
    if path:
        event[path[-1]] = value


def _along(event: Any, path: list[Any]) -> Iterator[int]:
    for step in path:
        if isinstance(event, dict):
            yield from _indexes(event)
        event = event[step]


def _indexes(node: dict[str, Any]) -> list[int]:
    return [value for name, value in node.items() if name.endswith("index") and type(value) is int]


def _setter(container: Any, key: Any) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        container[key] = value

    return put
