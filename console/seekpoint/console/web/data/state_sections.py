"""A state as JSON that people can read: sections of items, each made only when it is shown or compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson

from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.state.process_state import FIELDS
from seekpoint.schemas.state.state_table import Section as Part

if TYPE_CHECKING:
    from seekpoint.schemas.bodies import MessageSaid
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import State
    from seekpoint.schemas.state.state_table import StateField

BOOKKEEPING = "bookkeeping"
"""The section with what the journal needs to know of a process, and its agent's code never sees."""
_OWN_SECTIONS = frozenset({"values_json", "conversation", "calls", "mailbox"})
_BOOKKEEPING = frozenset(
    {"epoch", "owner", "owner_node", "owner_boot", "seq", "last_kind", "remembered", "start_frame", "turn_frame"}
    | {"forgotten", "run_failures", "last_call"}
)
_DEFAULTS = (None, "", 0)
"""What a value in a state has where it says nothing."""
_MESSAGE = ("role", "content", "parts", "tool_calls", "tool_call_id", "name")


class StateSection(NamedTuple):
    """A part of a state: items by name, as the state has them."""

    name: str
    items: Mapping[Any, Any]
    """By key, or by number if the section is a list. Equal items are equal objects in both states, mostly the same."""
    plain: Callable[[Any], Any]
    """Makes JSON of an item."""
    is_list: bool = False
    newest_first: bool = False
    """Whether the last items tell more than the first ones, where not all are shown."""


def sections_of(state: State) -> list[StateSection]:
    """Return the sections of a state, which together are all that its hash compares."""
    parts = [one for part in (Part.CONTENT, Part.OWNERSHIP) for one in FIELDS.in_section(part)]
    own = [one for one in parts if one.name not in _OWN_SECTIONS]
    return [
        StateSection("process", _fields(state, (one for one in own if one.name not in _BOOKKEEPING)), _same),
        StateSection("context", dict(sorted(state.values_json.items())), orjson.loads),
        StateSection("conversation", dict(enumerate(state.conversation.bodies())), _message, True, True),
        StateSection("calls", state.calls.copy(), _call, newest_first=True),
        StateSection("mailbox", dict(enumerate(state.mailbox.values())), _plain, True),
        StateSection(BOOKKEEPING, _fields(state, (one for one in own if one.name in _BOOKKEEPING)), _same),
    ]


def state_json(state: State) -> dict[str, Any]:
    """Return a whole state, by section."""
    return {
        one.name: [one.plain(item) for item in one.items.values()]
        if one.is_list
        else {key: one.plain(item) for key, item in one.items.items()}
        for one in sections_of(state)
    }


def _fields(state: State, fields: Iterable[StateField]) -> dict[str, Any]:
    """Return the fields that say something, as JSON."""
    found = {one.name: (one, getattr(state, one.name)) for one in fields}
    return {
        name.removesuffix("_json"): _of_field(name, value)
        for name, (one, value) in found.items()
        if value is not None and (one.always or value != one.new())
    }


def _of_field(name: str, value: Any) -> Any:
    return orjson.loads(value) if name.endswith("_json") and value is not None else _plain(value)


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """Return a value of a state as JSON. JSON texts in it become what they say."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return id_text(value) if len(value) == 16 else value.hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, msgspec.Struct):
        fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
        return {name.removesuffix("_json"): _field_of_part(name, one) for name, one in fields if one not in _DEFAULTS}
    if isinstance(value, Mapping):
        return {_key(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value]


def _field_of_part(name: str, value: Any) -> Any:
    if not name.endswith("_json"):
        return _plain(value)
    if isinstance(value, Mapping):
        return {key: orjson.loads(text) for key, text in value.items()}
    return orjson.loads(value)


def _key(key: Any) -> str:
    return str(id_text(key)) if isinstance(key, bytes) and len(key) == 16 else str(key)


def _call(call: Call) -> dict[str, Any]:
    facts = {"kind": call.kind, "status": call.status, "attempt": call.attempt, "seq": call.seq}
    texts = {"output": call.output, "error": call.error, "detail": call.detail}
    told = {name: orjson.loads(text) for name, text in texts.items() if text is not None}
    return {**facts, **told, "position": call.position, "digest": call.digest}


def _message(said: MessageSaid) -> dict[str, Any]:
    found = {name: getattr(said, name, None) for name in _MESSAGE}
    return {
        name: orjson.loads(value) if name in ("parts", "tool_calls") else value
        for name, value in found.items()
        if value is not None
    }
