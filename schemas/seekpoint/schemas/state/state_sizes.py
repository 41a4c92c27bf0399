"""The bytes that each part takes in a state's JSON, so that a state within its limit can always be checkpointed.

A draft's ``content_bytes`` and ``mailbox_bytes`` are kept up to date part by part; recomputed from the whole they are
the same (a test holds them to it), so every reader refuses the same entry, wherever it began to fold.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from seekpoint.schemas.bodies import Json, MessageSaid
from seekpoint.schemas.errors import UnserializableValue
from seekpoint.schemas.state.calls import Call, Frame, Obligation, call_row
from seekpoint.schemas.state.state_parts import InvocationState, MailItem

__all__ = [
    "call_width",
    "calls_width",
    "frame_width",
    "invocation_width",
    "item_width",
    "message_width",
    "obligation_width",
    "text_width",
    "value_width",
]

_MESSAGE_BYTES = 40  # brackets, commas and nulls, rounded up
_ITEM_BYTES = 80  # the same and the id and the kind

_dumps = orjson.dumps


def text_width(text: str | None) -> int:
    """The bytes ``text`` takes as a JSON string. ``UnserializableValue`` for a lone surrogate: no record has one."""
    if text is None:
        return 4
    try:
        return len(_dumps(text))
    except TypeError as exc:
        raise _unserializable() from exc


def _unserializable() -> UnserializableValue:
    return UnserializableValue("a text with a lone surrogate cannot be journaled")


def value_width(key: str, text: Json) -> int:
    """Return the bytes of one context value."""
    return text_width(key) + text_width(text) + 2


def message_width(said: MessageSaid) -> int:
    """Return the bytes of one message."""
    role, content, parts = said.role, said.content, said.parts
    calls, call_id, name = said.tool_calls, said.tool_call_id, said.name
    width = _MESSAGE_BYTES + _texts_width((role, content))
    if parts is calls is call_id is name is None:
        return width
    return width + sum(text_width(part) for part in (parts, calls, call_id, name) if part is not None)


def _texts_width(texts: tuple[str | None, ...]) -> int:
    """Return the sum of ``text_width`` of all ``texts``, in one call."""
    try:
        return len(_dumps(texts)) - len(texts) - 1
    except TypeError as exc:
        raise _unserializable() from exc


def invocation_width(invocation: InvocationState | None) -> int:
    """Return the bytes of the invocation in progress."""
    if invocation is None:
        return 0
    return _MESSAGE_BYTES + text_width(invocation.trigger) + text_width(invocation.payload_json)


def item_width(item: MailItem) -> int:
    """Return the bytes of one external entry in the mailbox."""
    return _ITEM_BYTES + text_width(item.name) + text_width(item.payload_json) + text_width(item.actor)


def calls_width(calls: Mapping[str, Call]) -> int:
    """Return the sum of ``call_width`` in a fifth of the time."""
    if not calls:
        return 0
    whole = len(_dumps({key: call_row(call) for key, call in calls.items()})) - 1
    return whole + sum(call_width(key, call) // 2 for key, call in calls.items() if call.kind == "effect")


def call_width(key: str, call: Call) -> int:
    """Return the bytes of one call; twice those of an effect, which is kept a second time while it is not settled."""
    try:
        width = len(_dumps((key, call_row(call)))) - 1  # key and row, a colon and a comma
    except TypeError as exc:
        raise _unserializable() from exc
    return 2 * width if call.kind == "effect" else width


def frame_width(frame: Frame | None) -> int:
    """Return the bytes of what a resume starts from."""
    if frame is None:
        return 0
    values = sum(value_width(key, text) for key, text in frame.values_json.items())
    return _MESSAGE_BYTES + values + invocation_width(frame.invocation)


def obligation_width(one: Obligation) -> int:
    """Return the bytes of one obligation."""
    return _MESSAGE_BYTES + text_width(one.key) + text_width(one.name) + text_width(one.arguments_json)
