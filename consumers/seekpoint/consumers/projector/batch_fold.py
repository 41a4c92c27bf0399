"""The fold of a batch: it collapses the batch's entries into one change per process, with only the touched fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seekpoint.consumers.checkpoints.cadence import asks_for_checkpoint
from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.content_rules import deleted_keys
from seekpoint.schemas.folding.fold import UNCHANGED, Verdict, advance, advance_owner_entry
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.values.json_values import load
from seekpoint.schemas.wire.avro_primitives import get_long
from seekpoint.schemas.wire.codec import Codec

_APPLIED, _SKIPPED = Verdict.APPLIED, Verdict.SKIPPED  # to name an enum's member costs a tenth of a microsecond
Poison = list[tuple[Record, UndecodableRecord]]


@dataclass(slots=True)
class Touched:
    """One process while a batch is folded, and the fields that the batch touched."""

    base: State | None
    """The state before the batch. None: the view does not have the process."""
    draft: Draft
    first: int | None = None
    """The offset of the batch's first entry that was not applied before."""
    read_bytes: int = 0
    whole: bool = False
    mail: bool = False
    messages: int = 0
    """Messages that the batch added to the conversation."""
    is_urgent: bool = False
    frames: bool = False
    folds: bool = False
    keys: set[str] = field(default_factory=set)
    call_keys: set[str] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)
    encoded_ts: bytes | None = None
    """The time of the newest entry, if it is not in the draft yet."""

    def change(self, key: bytes) -> Change:
        """Return the change to write. It takes the draft over: do not fold on it afterwards."""
        if self.encoded_ts is not None:
            self.draft.updated_us = get_long(self.encoded_ts, 0)[0]
        state = self.draft.freeze()
        if self.whole:
            return Change(key=key, state=state, whole=True)
        messages = state.conversation.newest(self.messages) if self.messages else ()
        return Change(
            key=key, state=state, base=self.base, context_keys=frozenset(self.keys),
            call_keys=frozenset(self.call_keys), digests=frozenset(self.digests), frames=self.frames,
            folds=self.folds, messages=messages, mail=self.mail,
        )  # fmt: skip


def fold_batch(
    records: Sequence[Record], bases: Mapping[bytes, State | None], log: LogReader, after_invocation: bool
) -> tuple[dict[bytes, Touched], Poison]:
    """Fold ``records`` on ``bases``, the states before them; return what changed, and the poison, forged entries too.

    This is the hot loop. It folds each entry as soon as it is decoded and keeps none: a batch of entries would be half
    of what the garbage collector has to walk. Raises ``NewerFormat``, for which no entry is skipped.
    """
    codec, partitions, limits = log.codec, log.partitions, log.limits
    touched: dict[bytes, Touched] = {}
    poison: Poison = []
    decode_owner_entry = codec.decode_owner_entry
    for record in records:
        _, offset, _, key, value = record
        if key is None or value is None:
            poison.append((record, _refusal(record, codec, partitions)))
            continue
        verdict = base = owned = None
        one = touched.get(key)
        if one is None:
            base = bases.get(key)
        if one is not None or base is not None:  # so the key was checked, in this batch or when the view got it
            owned = decode_owner_entry(value, key)
            if owned is not None:
                if one is None:
                    one = touched[key] = _begin(base)
                body = owned.body
                verdict = advance_owner_entry(one.draft, offset, owned, limits)
        if verdict is None:
            try:
                entry = entry_of(record, codec, partitions)
            except UndecodableRecord as exc:
                poison.append((record, exc))
                continue
            if one is None:
                one = touched[key] = _begin(base)
            owned, body = None, entry.body
            verdict = advance(one.draft, offset, entry, limits)
        assert one is not None
        if verdict is _SKIPPED:
            continue
        if verdict is _APPLIED or verdict not in UNCHANGED:
            one.encoded_ts = None if owned is None else owned.encoded_ts
        if one.first is None:
            one.first = offset
        one.read_bytes += len(value)
        if verdict is _APPLIED:
            kind = type(body)
            if kind is b.MessageSaid:
                one.messages += 1
            elif kind in _MARKS:
                _MARKS[kind](one, body)
            if body.call is not None:
                one.call_keys.add(body.call)
            if kind in _URGENT and asks_for_checkpoint(body, one.draft, after_invocation):
                one.is_urgent = True
        elif verdict is Verdict.FORGED:
            poison.append((record, UndecodableRecord(verdict.value, process_id=key.decode())))
        else:
            _note_unapplied(one, verdict, body)
    return touched, poison


def _note_unapplied(one: Touched, verdict: Verdict, body: b.Body) -> None:
    """Note what an entry touches that was delivered or refused, but not applied."""
    if verdict is Verdict.DELIVERED:
        one.mail = True
        if type(body) is b.EffectRevoked:
            one.call_keys.add(body.key)
    elif verdict is Verdict.STALE and type(body) is b.EffectSettled:
        one.mail = True  # the outcome that a former owner knows of an effect in doubt
    elif verdict is Verdict.REFUSED and type(body) is b.SharedSet:
        one.mail = True  # the mailbox remembers the id, so the entry stays refused


def _refusal(record: Record, codec: Codec, partitions: int) -> UndecodableRecord:
    """Return the error for a record without a key or without a value, which is never an entry."""
    try:
        entry_of(record, codec, partitions)
    except UndecodableRecord as exc:
        return exc
    raise AssertionError("an entry without a key or without a value was decoded")


def _begin(base: State | None) -> Touched:
    return Touched(base, Draft(), whole=True) if base is None else Touched(base, base.thaw())


# --- the fields that a body touches -----------------------------------------------------------------------------------
def _one_key(one: Touched, body: Any) -> None:
    one.keys.add(body.key)


def _many_keys(one: Touched, body: b.ContextUpdatedMany) -> None:
    one.keys.update(body.values)


def _patched_keys(one: Touched, body: b.ContextPatched) -> None:
    one.keys.update(load(body.patch))


def _all_keys(one: Touched, body: b.ContextCleared) -> None:
    if one.base is not None:
        one.keys.update(one.base.values_json)


def _mailbox(one: Touched, body: b.CancelAccepted) -> None:
    one.mail = True


def _received(one: Touched, body: b.Received) -> None:
    one.mail = True
    if body.key is not None:
        one.call_keys.add(body.key)


def _call(one: Touched, body: Any) -> None:
    one.call_keys.add(body.key)


def _calls(one: Touched, body: b.CallsSetAside) -> None:
    one.call_keys.update(load(body.keys))


def _call_and_mailbox(one: Touched, body: Any) -> None:
    one.call_keys.add(body.key)
    one.mail = True


def _custom(one: Touched, body: b.Custom) -> None:
    one.folds = True


def _frame(one: Touched, body: b.AgentStarted) -> None:
    one.frames = True


def _turn(one: Touched, body: b.TurnEnded) -> None:
    """Mark the calls of the turn, which end with it. Those that the batch made are marked already."""
    one.frames = True
    if one.base is not None:
        one.call_keys.update(one.base.calls.of_turn(body.number))


def _batch(one: Touched, body: b.ContentBatch) -> None:
    if body.cleared and one.base is not None:
        one.keys.update(one.base.values_json)
    one.keys.update(body.values, deleted_keys(body))
    one.messages += len(load(body.messages))


def _attachment(one: Touched, body: b.PartAttached) -> None:
    one.digests.add(body.digest)


def _attachments(one: Touched, body: b.Detached) -> None:
    one.digests.update(load(body.digests))


def _everything(one: Touched, body: b.Body) -> None:
    one.whole = True


_CALLS = (
    *(b.StepStarted, b.StepEnded, b.DecisionStarted, b.DecisionMade, b.Sampled, b.TimerSet, b.TimerFired),
    *(b.GateOpened, b.ChildSpawned, b.ChildEnded, b.EffectIntended),
)
_MARKS: Mapping[type[b.Body], Callable[[Touched, Any], None]] = {
    b.ContextUpdated: _one_key,
    b.ContextDeleted: _one_key,
    b.ContextUpdatedMany: _many_keys,
    b.ContextPatched: _patched_keys,
    b.ContextCleared: _all_keys,
    b.ContentBatch: _batch,
    b.Received: _received,
    b.CancelAccepted: _mailbox,
    b.CallsSetAside: _calls,
    b.GateResolved: _call_and_mailbox,
    b.AnswerRefused: _call_and_mailbox,
    b.EffectSettled: _call_and_mailbox,
    b.AgentStarted: _frame,
    b.Custom: _custom,
    b.TurnEnded: _turn,
    b.PartAttached: _attachment,
    b.Detached: _attachments,
    **dict.fromkeys(_CALLS, _call),
    b.Rewound: _everything,
    b.Forked: _everything,
    b.Promoted: _everything,
    b.Seeded: _everything,
    b.Deleted: _everything,
    b.Finished: _everything,
}
"""All other bodies change only fields that every write includes. A test checks that."""

_URGENT = frozenset({b.LifecycleChanged, b.Custom, b.Released, b.Finished, b.InvocationEnded, b.Deleted})
