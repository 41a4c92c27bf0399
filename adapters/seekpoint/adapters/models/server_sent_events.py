"""Read server-sent events from bytes, and write them again. Pure.

An event is the JSON of its data, if its name is the data's ``type`` or if it has neither. Any other event is an object
of ``_event`` (its name) and ``_data``: the end of OpenAI's streams is ``{"_event": None, "_data": "[DONE]"}``.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from seekpoint.adapters.models.strict_json import parsed

_LINE_END = re.compile(r"\r\n|\n|\r")
_LAST = frozenset({"message_stop", "response.completed", "response.failed", "response.incomplete"})


class EventReader:
    """Reads events from the pieces of a stream's bytes.

    >>> reader = EventReader()
    >>> [*reader.read(b'data: {"a": 1}\\r\\n\\r\\nevent: stop\\nda'), *reader.read(b'ta: {"type": "stop"}\\n\\n')]
    [{'a': 1}, {'type': 'stop'}]
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._name: str | None = None
        self._data: list[str] = []

    def read(self, data: bytes) -> Iterator[Any]:
        """Yield the events that end in ``data``."""
        text = self._rest + self._decoder.decode(data)
        held = "\r" if text.endswith("\r") else ""  # it may be the first half of a line's end
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[Any]:
        """Yield the event that the end of the stream ends."""
        for line in (*_LINE_END.split(self._rest), ""):
            yield from self._line(line)
        self._rest = ""

    def _line(self, line: str) -> Iterator[Any]:
        if not line:
            if self._data:
                yield _event(self._name, "\n".join(self._data))
            self._name, self._data = None, []
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value


def written(event: Any) -> bytes:
    """Return the bytes of an event, with its members in one order in each run."""
    name, data = _name_of(event), event["_data"] if _is_wrapped(event) else event
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, sort_keys=True)
    lines = [] if name is None else [f"event: {name}"]
    return "\n".join((*lines, *(f"data: {line}" for line in text.split("\n")), "", "")).encode()


def is_last(event: Any) -> bool:
    """Whether the event ends its stream: code that gets it knows that it has the whole answer."""
    if not isinstance(event, dict):
        return False
    return event.get("_data") == "[DONE]" or event.get("type") in _LAST


def _event(name: str | None, text: str) -> Any:
    try:
        data = parsed(text)
    except ValueError:  # the text, of JSON too that a journal does not carry
        return {"_event": name, "_data": text}
    told = data.get("type") if isinstance(data, dict) else None
    is_plain = isinstance(data, dict) and name == (told if isinstance(told, str) else None)
    return data if is_plain and "_data" not in data else {"_event": name, "_data": data}


def _is_wrapped(event: Any) -> bool:
    return "_data" in event


def _name_of(event: Any) -> str | None:
    name = event.get("_event") if _is_wrapped(event) else event.get("type")
    return name if isinstance(name, str) else None
