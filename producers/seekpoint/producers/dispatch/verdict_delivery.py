"""The verdict of a dispatcher, sent until it lies in the owner's mailbox."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id, process_key
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import Retryable
from seekpoint.schemas.folding.mailbox import MAILBOX_BYTES_MAX, has_room, mail_of
from seekpoint.schemas.state.state_parts import MailItem
from seekpoint.schemas.state.state_values import size_of
from seekpoint.schemas.wire.codec import encode

if TYPE_CHECKING:
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.schemas.state.process_state import State

logger = logging.getLogger("seekpoint.producers")

_AGAIN_S = 0.5
_PAUSES_A_WARNING = 120
_SETTLED = frozenset({"succeeded", "failed"})
_ACTOR_BYTES = 209
_ENVELOPE_BYTES = 2_048
"""More than the bytes beside the output of the entry by which the owner settles."""


def fits(process_id: str, verdict: b.EffectVerdict, limits: Limits) -> bool:
    """Return whether ``verdict`` fits an entry and an empty mailbox, and its output the entry that settles it."""
    room = limits.record_bytes - len(process_key(process_id)) - _ENVELOPE_BYTES
    return len(encode(_entry(process_id, verdict))) <= room and _width(process_id, verdict) <= MAILBOX_BYTES_MAX


def _entry(process_id: str, verdict: b.EffectVerdict) -> Entry:
    return Entry(b.NIL_ID, process_id, None, 0, None, None, 0, None, None, None, verdict)


def _width(process_id: str, verdict: b.EffectVerdict) -> int:
    return size_of(_item(process_id, verdict)) + _ACTOR_BYTES


def _item(process_id: str, verdict: b.EffectVerdict) -> MailItem:
    item = mail_of(_entry(process_id, verdict))
    assert item is not None
    return item


async def deliver(runtime: NodeRuntime, process_id: str, verdict: b.EffectVerdict, *, actor: str) -> None:
    """Put ``verdict`` into the mailbox, once, however long Kafka is silent: the outcome of a call must be known.

    A full mailbox refuses silently: so this reads the state, and sends again once there is room. Returns when the
    verdict was accepted, or the effect needs none any more.
    """
    entry_id = new_id()
    while True:
        try:
            await runtime.append_external(process_id, verdict, actor=actor, entry_id=entry_id)
            if await _arrives(runtime, process_id, verdict, entry_id):
                return
        except Retryable as exc:
            logger.warning("the outcome of %s is not reported yet: %s", verdict.idempotency_key, exc)
            await runtime.clock.sleep(_AGAIN_S)


async def _arrives(runtime: NodeRuntime, process_id: str, verdict: b.EffectVerdict, entry_id: bytes) -> bool:
    """Return True once the verdict is accepted or not needed; False once the mailbox that refused it has room."""
    pauses = 0
    while True:
        found = (await runtime.recover(process_id, missing_ok=True)).state
        if entry_id in found.remembered or entry_id in found.mailbox or not _needs(found, verdict):
            return True
        if has_room(found, replace(_item(process_id, verdict), actor="x" * _ACTOR_BYTES)):
            return False
        if pauses % _PAUSES_A_WARNING == 0:
            logger.warning("%s: no room in its mailbox for the outcome of %s", process_id, verdict.key)
        pauses += 1
        await runtime.clock.sleep(_AGAIN_S)


def _needs(state: State, verdict: b.EffectVerdict) -> bool:
    """Return whether an owner would settle the effect by the verdict."""
    call = state.calls.get(verdict.key)
    if state.finished or call is None or call.status in _SETTLED or call.status == verdict.outcome:
        return False
    return call.facts.get("idempotency_key") == verdict.idempotency_key
