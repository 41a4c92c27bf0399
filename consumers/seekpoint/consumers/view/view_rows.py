"""A state as what a view keeps of it: a head, the mail, the context's fields, the conversation's messages.

The head has everything that is small, as one JSON object without what is at its default; the mail (mailbox and
remembered ids) is apart because it may be a megabyte and seldom changes. The head counts values, messages and calls: a
writer that leaves some out is seen. A check beside it is a hash of the head and a sum over everything else: a row of
which something was changed, lost or added is seen. A batch changes the sum by what it changes. It guards against
accidents: it holds no secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha1
from itertools import count
from operator import mul
from typing import Any
from uuid import UUID
from zlib import crc32

import orjson

from seekpoint.consumers.view.view_store import Summary
from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.state.calls import call_row
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import FIELDS, FOLD_VERSION, State
from seekpoint.schemas.state.state_json import fold_row, frame_row
from seekpoint.schemas.state.state_parts import mail_row

__all__ = [
    "call_fields",
    "check_of",
    "field_sum",
    "fold_fields",
    "frame_fields",
    "head_check",
    "head_of",
    "mail_check",
    "mail_of",
    "message_row",
    "said_sum",
    "state_of",
    "sum_text",
    "summary_in",
]

_dumps = orjson.dumps
_MODULUS = 1 << 52
"""Of sums: Lua's numbers are exact up to there."""

Row = Sequence[Any]
_CALL, _FRAME, _FOLD = b"\xff", b"\xfe", b"\xfd"
"""How the names of fields begin that are no context value's: no UTF-8 text has these bytes."""
_FRAMES = {_FRAME + b"start": "start_frame", _FRAME + b"turn": "turn_frame"}


def head_of(state: State) -> bytes:
    """The head: JSON, a few hundred bytes."""
    head = {"v": FOLD_VERSION, "lifecycle": state.lifecycle, "offset": state.offset, **FIELDS.head_of(state)}
    values, messages = len(state.values_json), len(state.conversation)
    if values:
        head["values"] = values
    if messages:
        head["messages"] = messages
    if state.calls:
        head["calls"] = len(state.calls)
    return orjson.dumps(head)


def mail_of(state: State) -> bytes:
    """The mailbox and the remembered ids; nothing at all if both are empty."""
    if not state.mailbox and not state.remembered:
        return b""
    items = [mail_row(item) for item in state.mailbox.values()]
    return orjson.dumps([items, b"".join(state.remembered).hex()])


def call_fields(state: State, keys: Iterable[str], changed: list[str | bytes], removed: list[str | bytes]) -> None:
    """Add the fields of the calls ``keys``: field, value, ... of what there is, the field of what is gone."""
    calls = state.calls
    for key in keys:
        call, name = calls.get(key), _CALL + key.encode()
        if call is None:
            removed.append(name)
        else:
            changed += [name, orjson.dumps(call_row(call))]


def frame_fields(state: State) -> list[str | bytes]:
    """The fields of what a resume starts from: field, value, ..."""
    frames = zip(_FRAMES, (state.start_frame, state.turn_frame), strict=True)
    return [part for name, frame in frames if frame is not None for part in (name, orjson.dumps(frame_row(frame)))]


def fold_fields(state: State) -> list[str | bytes]:
    """The fields of what users' folds made of it: field, value, ..."""
    return [part for name, one in state.folds.items() for part in (_FOLD + name.encode(), _dumps(fold_row(one)))]


def message_row(said: MessageSaid) -> bytes:
    """One message: a JSON list of role, text, parts, tool calls, tool call id and name, without nulls at its end."""
    parts, calls, call_id, name = said.parts, said.tool_calls, said.tool_call_id, said.name
    if parts is calls is call_id is name is None and said.content is not None:
        return _dumps((said.role, said.content))
    row = [said.role, said.content, parts, calls, call_id, name]
    while row[-1] is None:
        row.pop()
    return _dumps(row)


def said_sum(messages: Iterable[bytes], start: int) -> int:
    """What messages from position ``start`` on add to a row's sum: CRC-32 times position, as Fletcher's checksum.

    A conversation may have ten thousand of them: 0.2 µs each.
    """
    total: int = sum(map(mul, map(crc32, messages), count(start + 1)))
    return total % _MODULUS


def field_sum(fields: Sequence[str | bytes]) -> int:
    """Return what fields (field, value, ...) add to the sum of a row.

    A value's CRC-32 counts as often as its field's says. Were it seeded with the field's instead, values of one length
    that two fields exchange would leave the sum as it was once in 12,000 times: a CRC is linear.
    """
    parts = [part.encode() if isinstance(part, str) else part for part in fields]
    return sum([crc32(value) * (2 * crc32(name) + 1) for name, value in zip(parts[::2], parts[1::2], strict=True)])


def sum_text(total: int) -> bytes:
    """Return a sum, or a difference of two, as Redis adds it up."""
    return b"%d" % (total % _MODULUS)


def check_of(key: bytes, head: bytes, mail: bytes | None, context: Sequence[bytes], messages: Sequence[bytes]) -> bytes:
    """Return the check of a row with these parts: ``HEAD:SUM:MAIL``. ``view_scripts`` keeps it up to date."""
    total = said_sum(messages, 0) + field_sum(context)
    return b"%b:%b:%b" % (head_check(key, head), sum_text(total), mail_check(key, mail))


def head_check(key: bytes, head: bytes) -> bytes:
    """The first part of a row's check: lists read nothing but heads."""
    return sha1(key + b"\0" + head, usedforsecurity=False).hexdigest()[:13].encode()


def mail_check(key: bytes, mail: bytes | None) -> bytes:
    """Return the last part of a row's check: the mail's own, because a write replaces all of the mail."""
    return b"%x" % crc32(mail, crc32(key)) if mail else b""


def state_of(head: bytes, mail: bytes | None, context: Sequence[bytes], messages: Iterable[bytes]) -> State:
    """The state again, exactly. ``context`` is field, value, field, value.

    ``NewerFormat`` if a newer fold wrote it, ``JournalMismatch`` if parts of it are missing or no such parts.
    """
    try:
        row = _head(head)
        apart = _apart(mail, context, messages)
        found = (len(apart["context"]), len(apart["conversation"]), len(apart["calls"]))
        if found != (row.get("values", 0), row.get("messages", 0), row.get("calls", 0)):
            raise ValueError("other values, messages or calls than its head counts: its writer left something out")
        return State.from_json(FIELDS.from_head(row, apart))
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise JournalMismatch("a process in the view is no state", cause=repr(exc)[:200]) from exc


def summary_in(partition: int, key: bytes, head: bytes) -> Summary:
    """What a list says, from the head alone. Raises as ``state_of`` does."""
    try:
        row = _head(head)
        owner = row.get("owner")
        return Summary(
            process_id=key.decode(),
            partition=partition,
            lifecycle=Lifecycle(row["lifecycle"]),
            epoch=row.get("epoch", 0),
            owner=None if owner is None else UUID(owner).bytes,
            owner_node=row.get("owner_node"),
            seq=row.get("seq", 0),
            offset=row["offset"],
            last_kind=row.get("last_kind"),
            finished=row.get("finished", False),
            degraded=row["degraded"]["reason"] if "degraded" in row else None,
            messages=row.get("messages", 0),
            values=row.get("values", 0),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise JournalMismatch("the view holds bytes that are no head", cause=repr(exc)[:200]) from exc


def _head(head: bytes) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(head)
    if row["v"] > FOLD_VERSION:
        raise NewerFormat("the view holds a state of a newer fold than this one", found=row["v"], known=FOLD_VERSION)
    if row["v"] < FOLD_VERSION:
        raise ValueError("a state of an older fold in a view of this one")
    return row


def _apart(mail: bytes | None, context: Sequence[bytes], messages: Iterable[bytes]) -> dict[str, Any]:
    """Return the values that are kept apart from the head, by their keys in a state's JSON."""
    texts: list[str] = []
    calls: dict[str, Any] = {}
    frames: dict[str, Any] = {}
    folds: dict[str, Any] = {}
    for name, value in zip(context[::2], context[1::2], strict=True):
        if name.startswith(_CALL):
            calls[name[1:].decode()] = orjson.loads(value)
        elif name.startswith(_FRAME):
            frames[_FRAMES[name]] = orjson.loads(value)
        elif name.startswith(_FOLD):
            folds[name[1:].decode()] = orjson.loads(value)
        else:
            texts += [name.decode(), value.decode()]
    items, remembered = orjson.loads(mail) if mail else ([], "")
    said = orjson.loads(b"[" + b",".join(messages) + b"]")
    return {
        "context": dict(zip(texts[::2], texts[1::2], strict=True)),
        "conversation": [[*one, *(None,) * (6 - len(one))] for one in said],
        "calls": calls,
        "folds": folds,
        "mailbox": items,
        "remembered": [remembered[at : at + 32] for at in range(0, len(remembered), 32)],
        **frames,
    }
