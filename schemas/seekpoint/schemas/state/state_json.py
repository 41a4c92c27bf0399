"""The forms of a state's values: how each is written as JSON, read, masked and measured.

Reading is strict: JSON that differs from what this code writes is refused. Dynamic values stay the texts they are:
they come back letter for letter, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.folds import Folded
from seekpoint.schemas.state.call_table import Calls, CallsDraft
from seekpoint.schemas.state.calls import UNSETTLED, AgentRun, Call, Frame, Obligation, agent_row, call_of, call_row
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_budget import Budget
from seekpoint.schemas.state.state_parts import (
    Degraded,
    Failure,
    InvocationState,
    Lineage,
    MailItem,
    mail_item,
    mail_row,
)
from seekpoint.schemas.state.state_sizes import (
    calls_width,
    frame_width,
    invocation_width,
    message_width,
    obligation_width,
    text_width,
    value_width,
)
from seekpoint.schemas.state.state_table import FieldForm, Image, Section, Shape

__all__ = ["COUNT", "FLAG", "INTEGER", "TEXT", "fold_row", "frame_row", "json_text", "text"]

_Kind = TypeVar("_Kind")


# --- readers of plain values ------------------------------------------------------------------------------------------
def _is(kind: type[_Kind], value: Any) -> _Kind:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} is wanted, not {type(value).__name__}")
    return value


def _count(value: Any) -> int:
    """A number that the fold counts up by one: one that is no count would leave 64 bits, and the state its JSON."""
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
_PLAIN = Shape("plain")


def text(name: str) -> FieldForm:
    """The form of a text, or none, that a mask finds under ``name``."""
    return FieldForm(_text, shape=Shape("optional_text", (name,)))


def json_text(name: str, width: Callable[[str], int] | None = None) -> FieldForm:
    """The form of a dynamic value, or none, that a mask finds under ``name``."""
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
    Shape("list", of=(Shape("text", ("id",)),)),
    width=lambda patches: sum(text_width(one) + 1 for one in patches),
)
FORGOTTEN = FieldForm(
    lambda found: {key: _count(times) for key, times in _is(dict, found).items()},
    dict,
    Shape("object", ("key",), (_PLAIN,)),
    width=lambda forgotten: sum(text_width(key) + 8 for key in forgotten),
)


# --- context and conversation -----------------------------------------------------------------------------------------
def _read_values(found: Any) -> dict[str, str]:
    return {key: _is(str, value) for key, value in _is(dict, found).items()}


def _values_width(values: Mapping[str, str]) -> int:
    return sum(value_width(key, value) for key, value in values.items())


VALUES = FieldForm(_read_values, dict, Shape("context"), _values_width, lambda values: values.values())


def _said(message: Any) -> MessageSaid:
    role, *rest = _is(list, message)
    if len(rest) != 5:
        raise ValueError("a message has six parts")
    return MessageSaid(_is(str, role), *(_optional(str, part) for part in rest))


def _conversation_rows(conversation: Conversation) -> list[list[str | None]]:
    return [
        [said.role, said.content, said.parts, said.tool_calls, said.tool_call_id, said.name]
        for said in conversation.bodies()
    ]


CONVERSATION = FieldForm(
    lambda found: Conversation(map(_said, _is(list, found))),
    _conversation_rows,
    Shape("list", of=(Shape("message"),)),
    width=lambda conversation: sum(map(message_width, conversation.bodies())),
    texts=lambda conversation: (one for said in conversation.bodies() for one in (said.parts, said.tool_calls)),
)


# --- invocations, and what a resume starts from -----------------------------------------------------------------------
def _invocation(found: Any) -> InvocationState | None:
    if found is None:
        return None
    trigger, payload_json, started = _is(list, found)
    return InvocationState(_is(str, trigger), _is(str, payload_json), _is(bool, started))


def _invocation_row(one: InvocationState | None) -> list[Any] | None:
    return None if one is None else [one.trigger, one.payload_json, one.started]


INVOCATION = FieldForm(
    _invocation,
    _invocation_row,
    Shape("row", of=(Shape("text", ("trigger",)), Shape("json", ("payload",)), _PLAIN)),
    invocation_width,
    lambda one: (one.payload_json,),
)


def _frame(found: Any) -> Frame:
    values, messages, invocations, invocation = _is(list, found)
    return Frame(_read_values(values), _count(messages), _count(invocations), _invocation(invocation))


def frame_row(frame: Frame) -> list[Any]:
    """Return what a resume starts from as a short list."""
    return [dict(frame.values_json), frame.messages, frame.invocations, _invocation_row(frame.invocation)]


def _frame_texts(frame: Frame) -> Iterable[str | None]:
    return *frame.values_json.values(), None if frame.invocation is None else frame.invocation.payload_json


FRAME = FieldForm(
    _frame,
    frame_row,
    Shape("row", of=(Shape("context"), _PLAIN, _PLAIN, INVOCATION.shape)),
    frame_width,
    _frame_texts,
)


# --- calls ------------------------------------------------------------------------------------------------------------
def _inherited_rows(calls: Calls) -> dict[str, Any]:
    """An effect that is not settled is inherited here: that is what a fork gets of it. ``EFFECTS`` has the rest."""
    return {key: call_row(_inherited(call)) for key, call in calls.items()}


def _inherited(call: Call) -> Call:
    if call.kind == "effect" and call.status in UNSETTLED:
        return call._replace(status="inherited", output=None, error=None)
    return call


def _unsettled_rows(calls: Calls) -> dict[str, Any]:
    return {key: call_row(call) for key, call in calls.items() if call.kind == "effect" and call.status in UNSETTLED}


def _call_texts(calls: Calls) -> Iterable[str | None]:
    return (one for call in calls.values() for one in (call.output, call.error, call.detail))


def _put_all(calls: CallsDraft, unsettled: Mapping[str, Call]) -> None:
    for key, call in unsettled.items():
        calls.put(key, call)


_CALLS_SHAPE = Shape("object", ("key",), (Shape("call"),))
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


# --- mail -------------------------------------------------------------------------------------------------------------
def _mailbox(found: Any) -> dict[bytes, MailItem]:
    items = [mail_item(_is(list, item)) for item in _is(list, found)]
    return {item.id: item for item in items}


MAILBOX = FieldForm(
    _mailbox,
    lambda mailbox: [mail_row(item) for item in mailbox.values()],
    Shape("list", of=(Shape("mail"),)),
    texts=lambda mailbox: [item.payload_json for item in mailbox.values()],
)
REMEMBERED = FieldForm(
    lambda found: dict.fromkeys(_id(one) for one in _is(list, found)),
    lambda remembered: [one.hex() for one in remembered],
)


# --- lineage, failures, gaps ------------------------------------------------------------------------------------------
def _lineage(found: Any) -> Lineage:
    return _lineage_of(**_is(dict, found))


def _lineage_of(parent_id: Any, parent_seq: Any, rewound_to_seq: Any, rewinds: Any) -> Lineage:
    return Lineage(
        _optional(str, parent_id), _optional(int, parent_seq), _optional(int, rewound_to_seq), _count(rewinds)
    )


def _lineage_json(one: Lineage) -> dict[str, Any]:
    return {
        "parent_id": one.parent_id,
        "parent_seq": one.parent_seq,
        "rewound_to_seq": one.rewound_to_seq,
        "rewinds": one.rewinds,
    }


LINEAGE = FieldForm(_lineage, _lineage_json, Shape("record", ("parent_id",), (Shape("process_id"),)))


def _failure(found: Any) -> Failure:
    seq, kind, message, where = _is(list, found)
    return Failure(_is(int, seq), _is(str, kind), _is(str, message), _optional(str, where))


FAILURE = FieldForm(
    _failure,
    lambda one: [one.seq, one.type, one.message, one.where],
    Shape(
        "row",
        of=(
            *(_PLAIN, Shape("text", ("type",)), Shape("text", ("message",))),
            Shape("optional_text", ("where",)),
        ),
    ),
)


def _degraded(found: Any, depth: int = 1) -> Degraded | None:
    if found is None:
        return None
    if depth > 2:
        raise ValueError("what came before a gap was no gap")
    reason, expected, seq = (_is(dict, found)[name] for name in ("reason", "expected_seq", "found_seq"))
    earlier = _degraded(found["earlier"], depth + 1)
    return Degraded(_is(str, reason), _is(int, expected), _is(int, seq), _is(str, found["detail"]), earlier)


def _degraded_json(one: Degraded | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "reason": one.reason,
        "expected_seq": one.expected_seq,
        "found_seq": one.found_seq,
        "detail": one.detail,
        "earlier": _degraded_json(one.earlier),
    }


DEGRADED = FieldForm(_degraded, _degraded_json, Shape("degraded"))


# --- an agent's run ---------------------------------------------------------------------------------------------------
AGENT = FieldForm(
    lambda found: AgentRun(*_strings(found)),
    agent_row,
    Shape(
        "row",
        of=(
            *(Shape("text", (name,)) for name in ("agent", "version", "definition")),
            *(Shape("json", ("input",)), Shape("text", ("digest",))),
        ),
    ),
    width=lambda run: text_width(run.input_json),
    texts=lambda run: (run.input_json,),
)
OBLIGATIONS = FieldForm(
    lambda found: tuple(Obligation(*_strings(one)) for one in _is(list, found)),
    lambda obligations: [[one.key, one.name, one.arguments_json, one.status] for one in obligations],
    Shape(
        "list",
        of=(
            Shape("row", of=(Shape("text", ("key",)), Shape("text", ("name",)), Shape("json", ("arguments",)), _PLAIN)),
        ),
    ),
    width=lambda obligations: sum(map(obligation_width, obligations)),
    texts=lambda obligations: [one.arguments_json for one in obligations],
)
BUDGET = FieldForm(lambda found: Budget.from_json(_is(dict, found)), Budget.to_json, Shape("budget"))


# --- folds of users' own ----------------------------------------------------------------------------------------------
def fold_row(one: Folded) -> list[Any]:
    """Return a fold's result as a short list."""
    return list(one if one.failed_seq is not None else one[:3])


def _fold_of(row: Any) -> Folded:
    version, customs, value_json, *failed = _is(list, row)
    seq, failure = failed or (None, None)
    return Folded(
        _is(int, version), _count(customs), _is(str, value_json), _optional(int, seq), _optional(str, failure)
    )


FOLDS = FieldForm(
    lambda found: MappingProxyType({name: _fold_of(row) for name, row in _is(dict, found).items()}),
    lambda folds: {name: fold_row(one) for name, one in folds.items()},
    Shape("folds"),
    texts=lambda folds: [one.value_json for one in folds.values()],
)
