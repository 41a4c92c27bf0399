"""The forms of a state's values: how each is written as JSON, read, masked and measured.

Reading is strict: JSON that differs from what this code writes is refused. Dynamic values stay the texts they are:
they come back letter for letter, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from msgspec import convert
from msgspec.structs import replace

from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.folds import Folded
from seekpoint.schemas.frozen_struct import built
from seekpoint.schemas.state.budget_sums import Budget
from seekpoint.schemas.state.call_table import Calls, CallsDraft
from seekpoint.schemas.state.calls import STANDING, AgentRun, Call, Frame, Obligation, call_of, call_row, calls_width
from seekpoint.schemas.state.conversation import Conversation, Message, message_width
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.mask_shapes import CONTEXT, NAME_OF_LIMIT, PLAIN, Shape
from seekpoint.schemas.state.mask_shapes import text as text_shape
from seekpoint.schemas.state.state_parts import (
    Attachment,
    Degraded,
    Failure,
    HoldRequest,
    InvocationState,
    Lineage,
    MailItem,
    RedriveRequest,
    RunFailures,
    Submission,
)
from seekpoint.schemas.state.state_table import FieldForm, Image, Section
from seekpoint.schemas.state.state_values import StateValue, mapping_width, shape_of, size_of, text_width, texts_in

__all__ = [
    "ATTACHMENT_PART_BYTES",
    "COUNT",
    "FLAG",
    "INTEGER",
    "LAST_CALL",
    "LAST_CALL_CHARS_MAX",
    "TEXT",
    "attachment_width",
    "json_text",
    "text",
]

_Kind = TypeVar("_Kind")


# --- readers of plain values ------------------------------------------------------------------------------------------
def _is(kind: type[_Kind], value: Any) -> _Kind:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} is wanted, not {type(value).__name__}")
    return value


def _count(value: Any) -> int:
    """Check a number that the fold counts up by one: a larger one would exceed the 64 bits of JSON."""
    if type(value) is not int or value >> _COUNT_BITS:
        raise ValueError("no count")
    return value


_COUNT_BITS = 62


def _optional(kind: type[_Kind], value: Any) -> _Kind | None:
    return None if value is None else _is(kind, value)


def _integer(found: Any) -> int:
    return _is(int, found)


def _text(found: Any) -> str:
    return _is(str, found)


def _strings(found: Any) -> list[str]:
    return [_is(str, one) for one in _is(list, found)]


def _id(value: Any) -> bytes:
    found = bytes.fromhex(_is(str, value))
    if len(found) != 16:
        raise ValueError("an id has 16 bytes")
    return found


# --- forms of plain values --------------------------------------------------------------------------------------------
def text(name: str) -> FieldForm:
    """Return the form of an optional text that a mask finds under ``name``."""
    return FieldForm(_text, shape=Shape("optional_text", (name,)))


LAST_CALL_CHARS_MAX = 200
"""The length to which the fold cuts the key in ``last_call``, which does not count towards the size of a state."""
LAST_CALL = FieldForm(lambda found: _is(str, found)[:LAST_CALL_CHARS_MAX], shape=Shape("optional_text", ("key",)))


def json_text(name: str, width: Callable[[str], int] | None = None) -> FieldForm:
    """Return the form of an optional dynamic value that a mask finds under ``name``."""
    return FieldForm(_text, shape=Shape("json", (name,)), width=width, texts=lambda value: (value,))


INTEGER = FieldForm(_integer)
COUNT = FieldForm(_count)
FLAG = FieldForm(lambda found: _is(bool, found))
TEXT = FieldForm(_text)
"""A word of this code's own: not masked."""
OWNER = FieldForm(lambda found: UUID(_is(str, found)).bytes, id_text)
LIFECYCLE = FieldForm(lambda found: Lifecycle(_is(str, found)), str)
PATCHES = FieldForm(
    lambda found: tuple(_strings(found)),
    list,
    Shape("list", of=(text_shape("id"),)),
    width=lambda patches: sum(text_width(one) + 1 for one in patches),
)
FORGOTTEN = FieldForm(
    lambda found: {key: _count(times) for key, times in _is(dict, found).items()},
    dict,
    Shape("object", ("key",), (PLAIN,)),
    width=lambda forgotten: sum(text_width(key) + 8 for key in forgotten),
)


# --- context and conversation -----------------------------------------------------------------------------------------
def _read_values(found: Any) -> dict[str, str]:
    return {key: _is(str, value) for key, value in _is(dict, found).items()}


VALUES = FieldForm(_read_values, dict, CONTEXT, mapping_width, lambda values: values.values())


def _conversation(found: Any) -> Conversation:
    said = convert(found, list[MessageSaid])
    if any(one.call is not None for one in said):
        raise ValueError("a message in a state has no call")
    return Conversation(said)


CONVERSATION = FieldForm(
    _conversation,
    lambda conversation: [*conversation.bodies()],
    Shape("list", of=(shape_of(Message),)),
    width=lambda conversation: sum(map(message_width, conversation.bodies())),
    texts=lambda conversation: (one for said in conversation.bodies() for one in (said.parts, said.tool_calls)),
)


# --- values of several fields ---------------------------------------------------------------------------------------
def value_of(cls: type[StateValue], *, is_content: bool = True) -> FieldForm:
    """Return the form of a value of ``cls``. ``is_content``: its size counts."""
    built(cls)
    return FieldForm(lambda found: convert(found, cls), None, shape_of(cls), size_of if is_content else None, texts_in)


def _obligations(found: Any) -> tuple[Obligation, ...]:
    return convert(found, tuple[Obligation, ...])


def _degraded(found: Any) -> Degraded:
    degraded = convert(found, Degraded)
    if degraded.earlier is not None and degraded.earlier.earlier is not None:
        raise ValueError("only the newest gap has an earlier reason")
    return degraded


for each in (MessageSaid, Obligation, Degraded, Folded, MailItem, Attachment):
    built(each)
INVOCATION, FRAME, AGENT = value_of(InvocationState), value_of(Frame), value_of(AgentRun)
LINEAGE, FAILURE = value_of(Lineage, is_content=False), value_of(Failure, is_content=False)
SUBMISSION, HOLD = value_of(Submission), value_of(HoldRequest, is_content=False)
RUN_FAILURES = value_of(RunFailures, is_content=False)
REDRIVE = value_of(RedriveRequest, is_content=False)
DEGRADED = FieldForm(_degraded, shape=shape_of(Degraded))
OBLIGATIONS = FieldForm(
    _obligations,
    shape=Shape("list", of=(shape_of(Obligation),)),
    width=lambda obligations: sum(map(size_of, obligations)),
    texts=lambda obligations: (text for one in obligations for text in texts_in(one)),
)
FOLDS = FieldForm(
    lambda found: MappingProxyType(convert(found, dict[str, Folded])),
    dict,
    Shape("members", ("folds",), (shape_of(Folded),)),
    texts=lambda folds: (text for one in folds.values() for text in texts_in(one)),
)
MAILBOX = FieldForm(
    lambda found: {item.id: item for item in convert(found, list[MailItem])},
    lambda mailbox: [*mailbox.values()],
    Shape("list", of=(shape_of(MailItem),)),
    texts=lambda mailbox: (text for one in mailbox.values() for text in texts_in(one)),
)
ATTACHMENT_PART_BYTES = 24
"""What a part of an attachment counts as content: its offset is in the state."""


def attachment_width(digest: str, attachment: Attachment) -> int:
    """Return the bytes of an attachment as content: what the state has of it, not its own."""
    return text_width(digest) + 2 + size_of(attachment) + ATTACHMENT_PART_BYTES * attachment.parts


ATTACHMENTS = FieldForm(
    lambda found: convert(found, dict[str, Attachment]),
    dict,
    Shape("digests", of=(shape_of(Attachment),)),
    width=lambda attachments: sum(map(attachment_width, attachments, attachments.values())),
)
OFFSETS = FieldForm(
    lambda found: {digest: tuple(map(_integer, _is(list, each))) for digest, each in _is(dict, found).items()},
    dict,
    Shape("digests", of=(PLAIN,)),
)
REMEMBERED = FieldForm(
    lambda found: dict.fromkeys(_id(one) for one in _is(list, found)),
    lambda remembered: [one.hex() for one in remembered],
)
_AMOUNTS = Shape("object", ("limits",), (NAME_OF_LIMIT,))
BUDGET = FieldForm(
    lambda found: Budget.from_json(_is(dict, found)),
    Budget.to_json,
    Shape(
        "record",
        parts={
            **dict.fromkeys(("limits", "day_limits", "spent", "day_spent"), _AMOUNTS),
            **dict.fromkeys(("warn_at", "on_exceed"), NAME_OF_LIMIT),
            "day": PLAIN,
            "reserved": Shape("object", ("key",), (_AMOUNTS,)),
            "noted": Shape("list", of=(NAME_OF_LIMIT,)),
        },
    ),
)


# --- calls ------------------------------------------------------------------------------------------------------------
def _inherited_rows(calls: Calls) -> dict[str, Any]:
    """Return the rows of calls for a fork: an effect that is not settled is ``inherited``. ``EFFECTS`` has the rest."""
    return {key: call_row(_inherited(call)) for key, call in calls.items()}


def _inherited(call: Call) -> Call:
    if call.kind == "effect" and call.status in STANDING:
        return replace(call, status="inherited", output=None, error=None)
    return call


def _unsettled_rows(calls: Calls) -> dict[str, Any]:
    few = calls.unsettled
    if not few:
        return {}
    return {key: call_row(call) for key, call in few.items() if call.kind == "effect" and call.status in STANDING}


def _call_texts(calls: Calls) -> Iterable[str | None]:
    return (text for call in calls.values() for text in texts_in(call))


def _put_all(calls: CallsDraft, unsettled: Mapping[str, Call]) -> None:
    for key, call in unsettled.items():
        calls.put(key, call)


_CALLS_SHAPE = Shape("object", ("key",), (shape_of(Call),))
CALLS = FieldForm(
    lambda found: CallsDraft.of_rows(_is(dict, found)), _inherited_rows, _CALLS_SHAPE, calls_width, _call_texts
)
EFFECTS = Image(
    Section.OWNERSHIP,
    "effects",
    FieldForm(
        lambda found: {key: call_of(row) for key, row in _is(dict, found).items()},
        _unsettled_rows,
        _CALLS_SHAPE,
    ),
    _put_all,
)
"""The effects that are not settled, as their owner has them."""
