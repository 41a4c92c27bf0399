"""The fold: the only function that computes states from entries. Recovery, projection, audit and tests all use it.

``fold(state, offset, entry)`` is pure. Readers of many entries call ``advance`` on a ``Draft``: it updates the draft in
place and returns the outcome of the entry (a ``Verdict``). First, **admission** decides by ownership alone whether the
entry counts. Then the body is applied. Only the order in the partition matters, never a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import orjson

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.folding.attachment_rules import ATTACHMENT_RULES
from seekpoint.schemas.folding.call_rules import CALL_RULES, record_write
from seekpoint.schemas.folding.content_rules import CONTENT_RULES, Misfit, Rule, too_big
from seekpoint.schemas.folding.deletion import delete
from seekpoint.schemas.folding.effect_rules import open_effect, revoke
from seekpoint.schemas.folding.mailbox import evidence_of, mail_of, remember, takes
from seekpoint.schemas.folding.seed import apply_seed
from seekpoint.schemas.folds import advance_folds
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, State, clear, drop_content
from seekpoint.schemas.state.state_parts import Degraded, HoldRequest, MailItem, RedriveRequest, Submission
from seekpoint.schemas.state.state_table import Cleared
from seekpoint.schemas.state.state_values import size_of, text_width
from seekpoint.schemas.wire.avro_primitives import get_long
from seekpoint.schemas.wire.codec import OwnerEntry

SHARED_PREFIX = "shared:"
"""The prefix of the process id of a shared value. Such a process never has an owner."""
TEXT_CHARS_MAX = 200
"""The length to which the fold cuts texts without another bound: a node's name, a misfit's detail."""


class Verdict(Enum):
    """The outcome of an entry. Reports and dead letters show its ``name``."""

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
    """Return the state after ``entry`` at ``offset``; ``state`` is not changed. Never raises for a decoded entry."""
    draft = state.thaw()
    advance(draft, offset, entry, limits)
    return draft.freeze()


def advance(draft: Draft, offset: int, entry: Entry, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Fold ``entry`` into ``draft`` in place and return its outcome."""
    if offset <= draft.offset:
        return Verdict.SKIPPED
    before_us = draft.updated_us
    draft.offset, draft.updated_us = offset, entry.ts
    if draft.first_offset is None:
        draft.first_offset, draft.started_us, before_us = offset, entry.ts, entry.ts
    if entry.seq is None:
        verdict = _EXTERNALS.get(type(entry.body), _deliver)(draft, entry, limits)
    else:
        verdict = _admit_owner(draft, entry, entry.seq, limits)
    if verdict is not _APPLIED and verdict in UNCHANGED:
        draft.updated_us = before_us  # it may be much older: a new group of workers reads the inbox again
    return verdict


def advance_owner_entry(
    draft: Draft, offset: int, entry: OwnerEntry, limits: Limits = DEFAULT_LIMITS
) -> Verdict | None:
    """Fold an entry of the present owner into ``draft`` in place and return its outcome.

    Returns None, and changes nothing, if the entry is not the present owner's: use ``advance`` for it. It leaves
    ``updated_us`` to the caller, who decodes only the time of the last entry of many, unless the state keeps it.
    """
    seq, epoch, claim_id, encoded_ts, body = entry
    if epoch != draft.epoch or claim_id != draft.owner or body.EXTERNAL:
        return None
    if offset <= draft.offset:
        return Verdict.SKIPPED
    draft.offset = offset
    if body.IS_TIMED:
        before_us, draft.updated_us = draft.updated_us, get_long(encoded_ts, 0)[0]
    if seq == draft.seq + 1 and draft.degraded is None and try_apply(draft, seq, body, limits) is None:
        return _APPLIED  # as nearly always, without the other rows of the admission table
    verdict = _admit_seq(draft, seq, body, limits)
    if body.IS_TIMED and verdict in UNCHANGED:
        draft.updated_us = before_us
    return verdict


UNCHANGED = frozenset(
    {
        Verdict.SKIPPED,
        Verdict.STALE,
        Verdict.DUPLICATE,
        Verdict.FORGED,
        Verdict.ABANDONED,
        Verdict.CLAIM_LOST,
        Verdict.REFUSED,
    }
)
"""The outcomes of entries that count for nothing: such an entry does not move the time of the newest one."""
_APPLIED = Verdict.APPLIED  # an attribute access on an enum class costs a tenth of a microsecond


# --- owner entries ----------------------------------------------------------------------------------------------------
def _admit_owner(draft: Draft, entry: Entry, seq: int, limits: Limits) -> Verdict:
    """Decide by the admission table, in the order of its rows."""
    epoch, owner, body = draft.epoch, draft.owner, entry.body
    if entry.epoch < epoch or (entry.epoch == epoch and owner is None and epoch > 0):
        draft.stale_entries += 1
        if type(body) is b.EffectSettled and not draft.finished and open_effect(draft, body.key) is not None:
            _put_mail(draft, entry.id, evidence_of(entry, body))
        return Verdict.STALE
    if entry.epoch > epoch or owner is None or entry.claim_id != owner or body.EXTERNAL:
        draft.forged_entries += 1
        return Verdict.FORGED
    return _admit_seq(draft, seq, body, limits)


def _admit_seq(draft: Draft, seq: int, body: b.Body, limits: Limits) -> Verdict:
    """Apply the present owner's entry if it is the next one."""
    if seq <= draft.seq:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    if draft.degraded is not None and draft.degraded.reason == "gap":
        draft.abandoned_entries += 1
        return Verdict.ABANDONED
    if seq > draft.seq + 1:
        draft.abandoned_entries += 1
        draft.degraded = Degraded("gap", draft.seq + 1, seq, earlier=draft.degraded)
        return Verdict.GAP
    misfit = try_apply(draft, seq, body, limits)
    if misfit is None:
        return _APPLIED
    draft.seq = seq
    draft.degraded = draft.degraded or Degraded(misfit[0], seq, seq, misfit[1][:TEXT_CHARS_MAX])
    return Verdict.MISFIT


def try_apply(draft: Draft, seq: int, body: b.Body, limits: Limits = DEFAULT_LIMITS) -> Misfit:
    """Apply ``body`` to ``draft`` and return None; if it does not fit, return the reason and change nothing.

    A writer calls it before it sends an entry. The entry's time is ``draft.updated_us``.
    """
    rule = _RULES[type(body)]
    misfit = rule(draft, body, limits) if body.call is None else record_write(draft, body.call, body, limits, rule)
    if misfit is None:
        draft.seq = seq
        if not body.OWNERSHIP:
            draft.last_kind = body.KIND
    return misfit


def _release(draft: Draft, body: b.Released, limits: Limits) -> Misfit:
    draft.owner = draft.owner_node = draft.owner_boot = None
    draft.mail_seen = body.mail_seen
    return None


def _finish(draft: Draft, body: b.Finished, limits: Limits) -> Misfit:
    """End the process: it has no owner and accepts no more entries. If it ran an agent, its lifecycle is stopped.

    Its content stays readable beside the gravestone until a projector drops it. If the state has no room for content
    and result, the content is dropped here.
    """
    misfit = too_big(text_width(body.result), limits)
    if misfit is not None:
        return misfit
    if draft.agent is not None:
        draft.lifecycle, draft.lifecycle_us = Lifecycle.STOPPED, draft.updated_us
    clear(draft, Cleared.AT_THE_END)
    draft.finished = True
    draft.result_json = body.result
    if too_big(draft.content_bytes + text_width(body.result), limits) is not None:
        drop_content(draft)
    return None


def _custom(draft: Draft, body: b.Custom, limits: Limits) -> Misfit:
    """Advance the folds that users registered."""
    advance_folds(draft, draft.seq + 1, body.kind, body.payload)
    return None


_RULES: Mapping[type[b.Body], Rule] = {
    **CONTENT_RULES,
    **CALL_RULES,
    **ATTACHMENT_RULES,
    b.Custom: _custom,
    b.Released: _release,
    b.Finished: _finish,
    b.Deleted: delete,
}


# --- external entries -------------------------------------------------------------------------------------------------
def _claim(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    body = entry.body
    assert isinstance(body, b.Claim)
    if body.expected_epoch != draft.epoch or draft.finished or _is_shared(entry) or not _may_claim(draft, body):
        draft.lost_claims += 1
        return Verdict.CLAIM_LOST
    draft.epoch += 1
    if draft.owner_boot not in (None, body.boot_id) and (draft.agent is not None or draft.submission is not None):
        draft.owner_deaths += 1
    draft.owner, draft.mail_seen = entry.id, None
    draft.owner_node, draft.owner_boot = body.node_id[:TEXT_CHARS_MAX], body.boot_id[:TEXT_CHARS_MAX]
    if body.accept_degraded:
        draft.degraded = None
    elif draft.degraded is not None and draft.degraded.reason == "gap":
        draft.degraded = draft.degraded.earlier
    return Verdict.CLAIM_WON


def _may_claim(draft: Draft, claim: b.Claim) -> bool:
    """Return whether ``claim`` may win a process that may be degraded.

    A person may accept the degradation. The present owner may also claim the process again if it caused the gap: it
    names its first unacknowledged seq, because a gap that begins below that seq has lost acknowledged entries.
    """
    degraded = draft.degraded
    if degraded is None or claim.accept_degraded:
        return True
    if claim.abandon_from_seq is None or draft.owner is None or claim.old_claim_id != draft.owner:
        return False
    return degraded.reason != "gap" or degraded.expected_seq >= claim.abandon_from_seq


def _deliver(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    item = mail_of(entry)
    if item is None:
        draft.forged_entries += 1
        return Verdict.FORGED
    verdict = _put_mail(draft, entry.id, item)
    if verdict is Verdict.DELIVERED:
        draft.last_kind = entry.body.KIND
    return verdict


def _put_mail(draft: Draft, entry_id: bytes, item: MailItem) -> Verdict:
    """Put ``item`` into the mailbox, once, if there is room."""
    # Ids are forgotten after a while, so an item that still waits is looked for in the mailbox too.
    if entry_id in draft.remembered or entry_id in draft.mailbox:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    grown = draft.mailbox_bytes + size_of(item)
    if draft.finished or not takes(draft, item, grown):
        draft.refused_externals += 1
        return Verdict.REFUSED
    draft.mailbox[entry_id] = item
    draft.mailbox_bytes = grown
    remember(draft, entry_id)
    return Verdict.DELIVERED


def _share(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    """Set a shared value: the first entry in the log wins. A refused entry stays refused when it is sent again."""
    body = entry.body
    assert isinstance(body, b.SharedSet)
    if not _is_shared(entry):
        draft.refused_externals += 1
        return Verdict.REFUSED
    if entry.id in draft.remembered:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    remember(draft, entry.id)
    if body.expected_version not in (-1, draft.shared_version):
        draft.refused_externals += 1
        return Verdict.REFUSED
    draft.content_bytes += text_width(body.value) - (0 if draft.shared_json is None else text_width(draft.shared_json))
    draft.shared_version += 1
    draft.shared_json = body.value
    draft.last_kind = body.KIND
    return Verdict.DELIVERED


def _is_shared(entry: Entry) -> bool:
    return entry.process_id.startswith(SHARED_PREFIX)


def _submit(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    """Note the run that is wanted of a process as which no agent has begun. The first submission in the log counts."""
    body = entry.body
    assert isinstance(body, b.Submitted)
    if entry.id in draft.remembered:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    wanted = Submission(
        entry.id, body.agent[:TEXT_CHARS_MAX], body.input, body.priority, body.start_at_us, entry.actor,
        body.correlation_id, None if body.trace_parent is None else body.trace_parent[:TEXT_CHARS_MAX], body.spawned_by,
    )  # fmt: skip
    grown = draft.content_bytes + size_of(wanted)
    has_begun = draft.finished or draft.agent is not None or draft.submission is not None
    if has_begun or _is_shared(entry) or too_big(grown, limits) is not None:
        draft.refused_externals += 1
        return Verdict.REFUSED
    remember(draft, entry.id)
    draft.submission, draft.content_bytes = wanted, grown
    draft.last_kind = body.KIND
    return Verdict.DELIVERED


def _control(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    """Note the newest request to suspend or to resume, or to redrive: it decides whether the process may be run."""
    body = entry.body
    assert isinstance(body, b.SuspendRequested | b.ResumeRequested | b.RedriveRequested)
    if entry.id in draft.remembered:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    if draft.finished or _is_shared(entry) or (isinstance(body, b.RedriveRequested) and not _are_keys(body.effects)):
        draft.refused_externals += 1
        return Verdict.REFUSED
    remember(draft, entry.id)
    reason = None if body.reason is None else body.reason[:TEXT_CHARS_MAX]
    if isinstance(body, b.RedriveRequested):
        draft.owner_deaths = 0
        draft.redrive = RedriveRequest(entry.id, reason, entry.actor, body.in_doubt, body.effects)
    else:
        action = "suspend" if isinstance(body, b.SuspendRequested) else "resume"
        draft.hold = HoldRequest(entry.id, action, reason, entry.actor)
    draft.last_kind = body.KIND
    return Verdict.DELIVERED


def _are_keys(text: b.Json | None) -> bool:
    """Return whether ``text`` lists keys of calls, as many as a request may name."""
    if text is None:
        return True
    try:
        keys = orjson.loads(text) if len(text) <= _KEYS_CHARS_MAX else None
    except orjson.JSONDecodeError:
        return False
    return type(keys) is list and all(type(key) is str for key in keys)


_KEYS_CHARS_MAX = 100_000


def _revoke(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    """Note that an effect was undone outside. A finished process owes nothing: its history alone says it."""
    body = entry.body
    assert isinstance(body, b.EffectRevoked)
    if entry.id in draft.remembered:
        draft.duplicate_entries += 1
        return Verdict.DUPLICATE
    if draft.finished and not _is_shared(entry):
        return Verdict.DELIVERED
    if _is_shared(entry) or not revoke(draft, body, entry.ts, limits):
        draft.refused_externals += 1
        return Verdict.REFUSED
    remember(draft, entry.id)
    draft.last_kind = body.KIND
    return Verdict.DELIVERED


def _seed(draft: Draft, entry: Entry, limits: Limits) -> Verdict:
    """Start a replayed process from the seed's state, if the seed is its first entry."""
    body = entry.body
    assert isinstance(body, b.Seeded)
    if apply_seed(draft, body.state, limits):
        return Verdict.APPLIED
    draft.forged_entries += 1
    return Verdict.FORGED


_EXTERNALS: dict[type[b.Body], Callable[[Draft, Entry, Limits], Verdict]] = {
    b.Claim: _claim,
    b.SharedSet: _share,
    b.Seeded: _seed,
    b.Submitted: _submit,
    b.SuspendRequested: _control,
    b.ResumeRequested: _control,
    b.RedriveRequested: _control,
    b.EffectRevoked: _revoke,
}
