"""The mailbox of a process: external entries as mail, how many of them there may be, and the ids that were seen."""

from __future__ import annotations

import orjson

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.effect_rules import open_effect
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.state.state_parts import MailItem
from seekpoint.schemas.state.state_values import size_of

REMEMBERED_IDS_MAX = 1_024
MAILBOX_ITEMS_MAX = 1_000
MAILBOX_BYTES_MAX = 1_048_576
CONTROL_ITEMS_MAX = 256
CONTROL_BYTES_MAX = 262_144
"""Extra room in a mailbox for entries that control the process, so that signals cannot displace them."""


def mail_of(entry: Entry) -> MailItem | None:
    """Return the mailbox item of an external entry; None for an entry that is no mail."""
    body = entry.body
    if isinstance(body, b.Signal):
        return MailItem(entry.id, body.KIND, body.name, body.payload, entry.actor)
    if isinstance(body, b.CancelRequested):
        return MailItem(entry.id, body.KIND, body.reason or "", "null", entry.actor)
    if isinstance(body, b.EffectVerdict):
        payload = {
            "outcome": body.outcome, "output": body.output, "error": body.error, "reason": body.reason,
            "idempotency_key": body.idempotency_key,
        }  # fmt: skip
        return MailItem(entry.id, body.KIND, body.key, orjson.dumps(payload).decode(), entry.actor)
    return None  # a body of an owner without a seq, which no owner writes


def evidence_of(entry: Entry, body: b.EffectSettled) -> MailItem:
    """Return the mail item with the outcome, as a former owner reports it, of an effect that is still in doubt."""
    payload = {"outcome": body.outcome, "output": body.output, "error": body.error, "cost_usd": body.cost_usd}
    return MailItem(entry.id, "evidence", body.key, orjson.dumps(payload).decode(), entry.actor)


def has_room(draft: Draft, item: MailItem) -> bool:
    """Return whether the mailbox of ``draft`` has room for ``item`` now."""
    return takes(draft, item, draft.mailbox_bytes + size_of(item))


def takes(draft: Draft, item: MailItem, grown: int) -> bool:
    """Return whether a mailbox takes ``item``, with which it has ``grown`` bytes."""
    items = len(draft.mailbox)
    if items < MAILBOX_ITEMS_MAX and grown <= MAILBOX_BYTES_MAX:
        return True
    if items >= MAILBOX_ITEMS_MAX + CONTROL_ITEMS_MAX or grown > MAILBOX_BYTES_MAX + CONTROL_BYTES_MAX:
        return False
    return _is_control(draft, item)


def _is_control(draft: Draft, item: MailItem) -> bool:
    """Return whether ``item`` controls the process.

    It does if it requests a cancel, settles an effect in doubt, or answers an open gate by its key.
    """
    if item.kind == b.CancelRequested.KIND:
        return draft.cancelled is None
    call = draft.calls.get(item.name)
    if item.kind == b.Signal.KIND:
        return call is not None and call.kind == "gate" and call.status == "started"
    return open_effect(draft, item.name) is not None


def remember(draft: Draft, entry_id: bytes) -> None:
    """Note the id of an external entry that had its effect. The oldest ids are forgotten."""
    draft.remembered[entry_id] = None
    if len(draft.remembered) > REMEMBERED_IDS_MAX:
        del draft.remembered[next(iter(draft.remembered))]
