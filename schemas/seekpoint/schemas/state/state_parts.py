"""The parts of a state that are more than one value: frozen, handed out as they are."""

from __future__ import annotations

from types import NoneType
from typing import Any

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.json_values import load

__all__ = ["Degraded", "InvocationState", "Lineage", "MailItem", "mail_item", "mail_row"]


class Degraded(FrozenStruct, frozen=True):
    """The reason why a process is degraded and a person has to look.

    ``gap``: owner entries are missing. All else is a body that does not fit: ``illegal_transition``,
    ``illegal_invocation``, ``illegal_patch``, ``illegal_content``, ``illegal_call``, ``state_limit``.
    """

    reason: str
    expected_seq: int
    found_seq: int
    detail: str = ""
    earlier: Degraded | None = None
    """A gap's only: what the process was degraded for before. An owner that heals the gap does not heal this."""


class InvocationState(FrozenStruct, frozen=True):
    """The invocation in progress."""

    trigger: str
    payload_json: Json
    started: bool = False

    @property
    def payload(self) -> Any:
        """Return a fresh copy of the trigger's payload."""
        return load(self.payload_json)


class MailItem(FrozenStruct, frozen=True):
    """An external entry that waits for the owner."""

    id: bytes
    kind: str
    name: str
    payload_json: Json
    actor: str | None

    @property
    def payload(self) -> Any:
        """Return a fresh copy of the payload that was sent."""
        return load(self.payload_json)


def mail_row(item: MailItem) -> list[str | None]:
    """``item`` as a short list of texts: id in hex, kind, name, payload, actor."""
    return [item.id.hex(), item.kind, item.name, item.payload_json, item.actor]


def mail_item(row: Any) -> MailItem:
    """The item of a row. ``TypeError`` or ``ValueError`` if it is none."""
    id_hex, kind, name, payload_json, actor = row
    if any(type(text) is not str for text in (id_hex, kind, name, payload_json)) or type(actor) not in (str, NoneType):
        raise TypeError("a row of mail has texts")
    entry_id = bytes.fromhex(id_hex)
    if len(entry_id) != 16:
        raise ValueError("an id has 16 bytes")
    return MailItem(entry_id, kind, name, payload_json, actor)


class Failure(FrozenStruct, frozen=True):
    """The newest exception that left the process's code."""

    seq: int
    """Of its entry: ``seekpoint log ID`` shows it with its traceback."""
    type: str
    message: str
    where: str | None
    """File, line, function and source line of the user's code it came from."""


class Lineage(FrozenStruct, frozen=True):
    """The origin of the content: the process it was forked from, the seq of the last rewind, the number of rewinds."""

    parent_id: str | None = None
    parent_seq: int | None = None
    rewound_to_seq: int | None = None
    rewinds: int = 0
