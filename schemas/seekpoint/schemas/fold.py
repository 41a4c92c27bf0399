"""The fold: the one function that says what entries mean. Recovery, projection, audit and tests all use it.

``fold(state, offset, entry)`` is pure. Readers of many entries keep a ``Draft`` and call ``advance``, which does the
same in place and tells what became of the entry (a ``Verdict``). First **admission** decides, by ownership alone,
whether the entry counts; then its body is applied. Order in the partition decides everything; no clock does.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from seekpoint.schemas import bodies as b
from seekpoint.schemas.content import Misfit, apply_content
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.state import Degraded, Draft, MailItem, State, item_width

__all__ = ["MAILBOX_BYTES_MAX", "MAILBOX_ITEMS_MAX", "REMEMBERED_IDS_MAX", "Verdict", "advance", "fold", "try_own"]

REMEMBERED_IDS_MAX = 1_024
MAILBOX_ITEMS_MAX = 1_000
MAILBOX_BYTES_MAX = 1_048_576


class Verdict(Enum):
    """What became of an entry. ``name`` is what reports and dead letters say."""

    SKIPPED = "at or below the state's offset: already applied"
    APPLIED = "applied"
    MISFIT = "its seq counts, its body does not fit: degraded"
    STALE = "written by a former owner"
    DUPLICATE = "its seq was applied before"
    FORGED = "an owner entry that no owner wrote"
    GAP = "an owner entry before it is missing: degraded"
    ABANDONED = "behind a gap: not applied"
    CLAIM_WON = "the process has a new owner"
    CLAIM_LOST = "another claim came first, or the process may not be claimed so"
    DELIVERED = "into the mailbox"
    REFUSED = "an external entry that the mailbox does not take"


def fold(state: State, offset: int, entry: Entry, limits: Limits = DEFAULT_LIMITS) -> State:
    """The state after ``entry``, which lies at ``offset``. ``state`` stays as it was. Never raises on a decoded entry."""
    draft = state.thaw()
    advance(draft, offset, entry, limits)
    return draft.freeze()


def advance(draft: Draft, offset: int, entry: Entry, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Fold ``entry`` into ``draft`` in place and say what became of it."""
    if offset <= draft.offset:
        return Verdict.SKIPPED
    draft.offset = offset
    if draft.first_offset is None:
        draft.first_offset = offset
    if entry.seq is None:
        return _EXTERNALS.get(type(entry.body), _deliver)(draft, entry)
    return _admit_owner(draft, entry, entry.seq, limits)


# --- owner entries ----------------------------------------------------------------------------------------------------
def _admit_owner(draft: Draft, entry: Entry, seq: int, limits: Limits) -> Verdict:
    released = draft.owner is None and draft.epoch > 0
    if entry.epoch < draft.epoch or (released and entry.epoch == draft.epoch):
        draft.stale_entries += 1
        return Verdict.STALE
    if entry.epoch > draft.epoch or draft.owner is None or entry.claim_id != draft.owner or entry.body.EXTERNAL:
        draft.forged_entries += 1
        return Verdict.FORGED
    if seq <= draft.seq:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    if _has_gap(draft):
        draft.abandoned_entries += 1
        return Verdict.ABANDONED
    if seq > draft.seq + 1:
        draft.abandoned_entries += 1
        draft.degraded = Degraded("gap", draft.seq + 1, seq)
        return Verdict.GAP
    return Verdict.APPLIED if apply_own(draft, seq, entry.body, limits) is None else Verdict.MISFIT


def _has_gap(draft: Draft) -> bool:
    return draft.degraded is not None and draft.degraded.reason == "gap"


def apply_own(draft: Draft, seq: int, body: b.Body, limits: Limits = DEFAULT_LIMITS) -> Misfit:
    """Apply an admitted owner's ``body``; a misfit counts its seq and degrades the process."""
    misfit = try_own(draft, seq, body, limits)
    if misfit is not None:
        draft.seq = seq
        draft.degraded = draft.degraded or Degraded(misfit[0], seq, seq, misfit[1])
    return misfit


def try_own(draft: Draft, seq: int, body: b.Body, limits: Limits = DEFAULT_LIMITS) -> Misfit:
    """Apply ``body`` and give None, or leave ``draft`` untouched and say why not: what a writer asks before it sends."""
    handler = _OWNERSHIP.get(type(body))
    if handler is not None:
        handler(draft, body)
    else:
        misfit = apply_content(draft, body, limits)
        if misfit is not None:
            return misfit
    draft.seq = seq
    if not body.OWNERSHIP:
        draft.last_kind = body.KIND
    return None


def _release(draft: Draft, body: Any) -> None:
    draft.owner = draft.owner_node = draft.owner_boot = None


def _finish(draft: Draft, body: b.Finished) -> None:
    """Only the gravestone stays: lifecycle, epoch, seq, offset, result."""
    bare = Draft()
    draft.values_json, draft.conversation = bare.values_json, bare.conversation
    draft.invocation, draft.invocations = None, 0
    draft.mailbox, draft.remembered, draft.lineage = bare.mailbox, bare.remembered, bare.lineage
    draft.degraded = None
    draft.content_bytes = draft.mailbox_bytes = 0
    draft.finished = True
    draft.result_json = body.result
    _release(draft, body)


def _receive(draft: Draft, body: b.Received) -> None:
    item = draft.mailbox.pop(body.external_id, None)
    if item is not None:
        draft.mailbox_bytes -= item_width(item)


_OWNERSHIP: dict[type[b.Body], Callable[[Draft, Any], None]] = {
    b.Released: _release,
    b.Finished: _finish,
    b.Received: _receive,
}


# --- external entries -------------------------------------------------------------------------------------------------
def _claim(draft: Draft, entry: Entry) -> Verdict:
    body = entry.body
    assert isinstance(body, b.Claim)
    if body.expected_epoch != draft.epoch or draft.finished or not _may_claim(draft, body):
        draft.lost_claims += 1
        return Verdict.CLAIM_LOST
    draft.epoch += 1
    draft.owner, draft.owner_node, draft.owner_boot = entry.id, body.node_id, body.boot_id
    if body.accept_degraded or _has_gap(draft):
        draft.degraded = None
    return Verdict.CLAIM_WON


def _may_claim(draft: Draft, claim: b.Claim) -> bool:
    """A degraded process is claimed by a person's choice, or by its present owner that explains the gap itself."""
    if draft.degraded is None or claim.accept_degraded:
        return True
    if claim.abandon_from_seq is None or claim.old_claim_id != draft.owner or draft.owner is None:
        return False
    return not _has_gap(draft) or draft.degraded.expected_seq >= claim.abandon_from_seq


def _deliver(draft: Draft, entry: Entry) -> Verdict:
    if entry.id in draft.remembered:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    item = _mail_item(entry)
    if item is None:
        draft.forged_entries += 1
        return Verdict.FORGED
    width = item_width(item)
    full = len(draft.mailbox) >= MAILBOX_ITEMS_MAX or draft.mailbox_bytes + width > MAILBOX_BYTES_MAX
    if draft.finished or full:
        draft.refused_externals += 1
        return Verdict.REFUSED
    draft.mailbox[entry.id] = item
    draft.mailbox_bytes += width
    draft.remembered[entry.id] = None
    if len(draft.remembered) > REMEMBERED_IDS_MAX:
        del draft.remembered[next(iter(draft.remembered))]
    draft.last_kind = entry.body.KIND
    return Verdict.DELIVERED


def _mail_item(entry: Entry) -> MailItem | None:
    body = entry.body
    if isinstance(body, b.Signal):
        return MailItem(entry.id, body.KIND, body.name, body.payload, entry.actor)
    if isinstance(body, b.CancelRequested):
        return MailItem(entry.id, body.KIND, body.reason or "", "null", entry.actor)
    return None  # an owner's body without a seq: nobody who owns the process wrote it


_EXTERNALS: dict[type[b.Body], Callable[[Draft, Entry], Verdict]] = {b.Claim: _claim}
