"""Write the events of a stream in few bytes: of an event that has the shape of the one before, only what differs. Pure.

A stream has hundreds of events that differ in a few words. The first event of a shape is written whole. The next one
names the paths to the values that differ, and from then on an event is the list of the values at these paths:

    {"event": {"n": 1, "delta": {"text": "On "}}}
    {"at": [["delta", "text"], ["n"]], "values": ["its ", 2]}
    ["way", 3]

    >>> encoder, decoder = EventEncoder(), EventDecoder()
    >>> events = [{"n": 1, "t": "On "}, {"n": 1, "t": "its "}, {"n": 1, "t": "way"}, {"end": True}]
    >>> written = [encoder.encoded(event) for event in events]
    >>> written[1:]
    [{'at': [['t']], 'values': ['its ']}, ['way'], {'event': {'end': True}}]
    >>> [decoder.decoded(one) for one in written] == events
    True
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeAlias

_Path: TypeAlias = "tuple[str | int, ...]"


class EventEncoder:
    """Writes the events of one stream."""

    def __init__(self) -> None:
        self._last: dict[_Path, Any] | None = None
        self._paths: list[_Path] = []

    def encoded(self, event: Any) -> Any:
        """Return an event as it is written."""
        last, found = self._last, dict(_leaves(event, ()))
        self._last = found
        if last is None or found.keys() != last.keys():
            self._paths = []
            return {"event": event}
        new = [path for path in found if _differ(found[path], last[path]) and path not in self._paths]
        if new:
            self._paths = [*self._paths, *new]
            return {"at": [[*path] for path in self._paths], "values": [found[path] for path in self._paths]}
        return [found[path] for path in self._paths]


class EventDecoder:
    """Reads what an ``EventEncoder`` has written."""

    def __init__(self) -> None:
        self._last: Any = None
        self._paths: list[list[str | int]] = []

    def decoded(self, written: Any) -> Any:
        """Return the next event, as a new object."""
        if isinstance(written, dict) and "event" in written:
            self._last, self._paths = written["event"], []
            return deepcopy(self._last)
        if isinstance(written, dict):
            self._paths = written["at"]
            written = written["values"]
        event = deepcopy(self._last)
        for path, value in zip(self._paths, written, strict=True):
            if not path:
                event = value
                continue
            *way, name = path
            holder = event
            for one in way:
                holder = holder[one]
            holder[name] = value
        self._last = event
        return deepcopy(event)


def _leaves(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members or not value:
        yield path, value
        return
    for name, member in members:
        yield from _leaves(member, (*path, name))


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or one != other
