"""What each part takes in a state's JSON, in bytes: so that a state within its limit can always be checkpointed.

A draft's ``content_bytes`` and ``mailbox_bytes`` are kept up to date part by part; recomputed from the whole they are
the same (a test holds them to it), so every reader refuses the same entry, wherever it began to fold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from seekpoint.schemas.bodies import Json, MessageSaid
from seekpoint.schemas.errors import UnserializableValue

if TYPE_CHECKING:
    from seekpoint.schemas.state import Draft, Invocation, MailItem

__all__ = [
    "content_width",
    "invocation_width",
    "item_width",
    "mailbox_width",
    "message_width",
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
        raise UnserializableValue("a text with a lone surrogate cannot be journaled") from exc


def value_width(key: str, text: Json) -> int:
    """The bytes of one context value."""
    return text_width(key) + text_width(text) + 2


def message_width(said: MessageSaid) -> int:
    """The bytes of one message."""
    width = _MESSAGE_BYTES + text_width(said.role) + text_width(said.content)
    for part in (said.parts, said.tool_calls, said.tool_call_id, said.name):
        if part is not None:
            width += text_width(part)
    return width


def invocation_width(invocation: Invocation | None) -> int:
    """The bytes of the invocation that is under way."""
    if invocation is None:
        return 0
    return _MESSAGE_BYTES + text_width(invocation.trigger) + text_width(invocation.payload_json)


def item_width(item: MailItem) -> int:
    """The bytes of one waiting external entry."""
    return _ITEM_BYTES + text_width(item.name) + text_width(item.payload_json) + text_width(item.actor)


def content_width(draft: Draft) -> int:
    """The bytes of all context values, messages and the invocation of ``draft``."""
    values = sum(value_width(key, text) for key, text in draft.values_json.items())
    return values + sum(map(message_width, draft.conversation.bodies())) + invocation_width(draft.invocation)


def mailbox_width(draft: Draft) -> int:
    """The bytes of all waiting external entries of ``draft``."""
    return sum(map(item_width, draft.mailbox.values()))
