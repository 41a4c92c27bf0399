"""The row of a process in a view: a head, the mail, the fields of its context, the messages of its conversation.

Calls, attachments, frames and the results of folds are fields beside the context's.

The head is one JSON object with everything small that is not at its default. The mail (mailbox and remembered ids) is
stored apart because it may be a megabyte and seldom changes. The head counts values, messages, calls and attachments,
which detects a write that omits some. The row's check has a hash of the head and a sum over everything else, which
detects a part that was changed, lost or added; a batch updates the sum by the difference. The check guards against
accidents only: it has no secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha1
from itertools import count
from operator import mul
from typing import Any
from zlib import crc32

import orjson

from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.state.calls import call_row
from seekpoint.schemas.state.process_state import FIELDS, FOLD_VERSION, State
from seekpoint.schemas.state.state_values import encoded

_MODULUS = 1 << 52
"""The modulus of sums, because Lua's numbers are exact up to 2^53."""

Row = Sequence[Any]
_CALL, _FRAME, _FOLD, _ATTACHMENT = b"\xff", b"\xfe", b"\xfd", b"\xfc"
"""The first byte of fields that are not context values. No UTF-8 text contains these bytes."""
_FRAMES = {_FRAME + b"start": "start_frame", _FRAME + b"turn": "turn_frame"}


def head_of(state: State) -> bytes:
    """Return the head: JSON, a few hundred bytes."""
    head = {"v": FOLD_VERSION, "lifecycle": state.lifecycle, "offset": state.offset, **FIELDS.head_of(state)}
    values, messages, calls, _ = state.counts
    if values:
        head["values"] = values
    if messages:
        head["messages"] = messages
    if calls:
        head["calls"] = calls
    if state.attachments:
        head["attachments"] = len(state.attachments)
    return encoded(head)


def mail_of(state: State) -> bytes:
    """Return the mailbox and the remembered ids; no bytes if both are empty."""
    if not state.mailbox and not state.remembered:
        return b""
    return encoded([[*state.mailbox.values()], b"".join(state.remembered).hex()])


def call_fields(state: State, keys: Iterable[str], changed: list[str | bytes], removed: list[str | bytes]) -> None:
    """Add the calls ``keys``: field, value, ... to ``changed``, or the field to ``removed`` if the call is gone."""
    calls = state.calls
    for key in keys:
        call, name = calls.get(key), _CALL + key.encode()
        if call is None:
            removed.append(name)
        else:
            changed += [name, encoded(call_row(call))]


def attachment_fields(
    state: State, digests: Iterable[str], changed: list[str | bytes], removed: list[str | bytes]
) -> None:
    """Add the attachments ``digests``: field, value, ... to ``changed``, or the field to ``removed`` if one is gone."""
    attachments, attached_at = state.attachments, state.attached_at
    for digest in digests:
        found, name = attachments.get(digest), _ATTACHMENT + digest.encode()
        if found is None:
            removed.append(name)
        else:
            changed += [name, encoded([found, attached_at.get(digest, ())])]


def frame_fields(state: State) -> list[str | bytes]:
    """Return the fields of the frames that a resume starts from: field, value, ..."""
    frames = zip(_FRAMES, (state.start_frame, state.turn_frame), strict=True)
    return [part for name, frame in frames if frame is not None for part in (name, encoded(frame))]


def fold_fields(state: State) -> list[str | bytes]:
    """Return the fields of the results of users' folds: field, value, ..."""
    return [part for name, one in state.folds.items() for part in (_FOLD + name.encode(), encoded(one))]


def message_row(message: MessageSaid) -> bytes:
    """Return a message as a JSON object, as in a state."""
    return encoded(message)


def message_sum(messages: Iterable[bytes], start: int) -> int:
    """Return what messages from position ``start`` on add to a row's sum: CRC-32 times position, like Fletcher's sum.

    A conversation may have ten thousand messages, each of which costs 0.2 µs.
    """
    total: int = sum(map(mul, map(crc32, messages), count(start + 1)))
    return total % _MODULUS


def field_sum(fields: Sequence[str | bytes]) -> int:
    """Return what fields (field, value, ...) add to the sum of a row.

    A value's CRC-32 counts as often as its field's says. Were it seeded with the field's instead, values of one length
    that two fields exchange would leave the sum as it was once in 12,000 times: a CRC is linear.
    """
    total, parts = 0, iter(fields)
    for name, value in zip(parts, parts, strict=True):
        of_name = crc32(name.encode() if isinstance(name, str) else name)
        total += crc32(value.encode() if isinstance(value, str) else value) * (2 * of_name + 1)
    return total


def sum_text(total: int) -> bytes:
    """Return a sum, or a difference of two, as Redis adds it up."""
    return b"%d" % (total % _MODULUS)


def check_of(key: bytes, head: bytes, mail: bytes | None, context: Sequence[bytes], messages: Sequence[bytes]) -> bytes:
    """Return the check of a row with these parts: ``HEAD:SUM:MAIL``. ``view_scripts`` keeps it up to date."""
    total = message_sum(messages, 0) + field_sum(context)
    return b"%b:%b:%b" % (head_check(key, head), sum_text(total), mail_check(key, mail))


def head_check(key: bytes, head: bytes) -> bytes:
    """Return the first part of a row's check, a hash of the head alone."""
    return sha1(key + b"\0" + head, usedforsecurity=False).hexdigest()[:13].encode()


def mail_check(key: bytes, mail: bytes | None) -> bytes:
    """Return the last part of a row's check: the mail's own, because a write replaces all of the mail."""
    return b"%x" % crc32(mail, crc32(key)) if mail else b""


def state_of(head: bytes, mail: bytes | None, context: Sequence[bytes], messages: Iterable[bytes]) -> State:
    """Return the state of a row. ``context`` is field, value, field, value, ...

    Raises ``NewerFormat`` if a newer fold wrote it, and ``JournalMismatch`` if parts are missing or invalid.
    """
    try:
        row = _head(head)
        parts = _other_parts(mail, context, messages)
        for name, part in _COUNTED.items():
            if len(parts[part]) != row.get(name, 0):
                raise ValueError(f"the number of {name} is not that of the head: a write omitted some")
        return State.from_json(FIELDS.from_head(row, parts))
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise JournalMismatch("a process in the view is not a valid state", cause=repr(exc)[:200]) from exc


_COUNTED = {"values": "context", "messages": "conversation", "calls": "calls", "attachments": "attachments"}


def _head(head: bytes) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(head)
    if row["v"] > FOLD_VERSION:
        raise NewerFormat("the view holds a state of a newer fold than this one", found=row["v"], known=FOLD_VERSION)
    if row["v"] < FOLD_VERSION:
        raise ValueError("a state of an older fold in a view of this one")
    return row


def _other_parts(mail: bytes | None, context: Sequence[bytes], messages: Iterable[bytes]) -> dict[str, Any]:
    """Return the values that are not in the head, by their keys in a state's JSON."""
    texts: list[str] = []
    calls: dict[str, Any] = {}
    frames: dict[str, Any] = {}
    folds: dict[str, Any] = {}
    attachments: dict[str, Any] = {}
    attached_at: dict[str, Any] = {}
    for name, value in zip(context[::2], context[1::2], strict=True):
        if name.startswith(_CALL):
            calls[name[1:].decode()] = orjson.loads(value)
        elif name.startswith(_FRAME):
            frames[_FRAMES[name]] = orjson.loads(value)
        elif name.startswith(_FOLD):
            folds[name[1:].decode()] = orjson.loads(value)
        elif name.startswith(_ATTACHMENT):
            digest = name[1:].decode()
            attachments[digest], offsets = orjson.loads(value)
            if offsets:
                attached_at[digest] = offsets
        else:
            texts += [name.decode(), value.decode()]
    items, remembered = orjson.loads(mail) if mail else ([], "")
    return {
        "context": dict(zip(texts[::2], texts[1::2], strict=True)),
        "conversation": orjson.loads(b"[" + b",".join(messages) + b"]"),
        "calls": calls,
        "folds": folds,
        "attachments": attachments,
        "attached_at": attached_at,
        "mailbox": items,
        "remembered": [remembered[at : at + 32] for at in range(0, len(remembered), 32)],
        **frames,
    }
