"""A batch of entries folded, collapsed to one change a process: only what it touched is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seekpoint.consumers.cadence import asks_for_checkpoint
from seekpoint.consumers.scan import entry_of
from seekpoint.consumers.view_store import Change
from seekpoint.schemas import bodies as b
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.fold import Verdict, advance
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.log import LogReader, Record
from seekpoint.schemas.state import Draft, State
from seekpoint.schemas.values import load

__all__ = ["Decoded", "Poison", "Touched", "decode_batch", "fold_batch"]

Decoded = Sequence[tuple[Record, Entry]]
Poison = list[tuple[Record, UndecodableRecord]]


@dataclass(slots=True)
class Touched:
    """One process while a batch is folded."""

    base: State | None
    """Its state before; None: the view does not have it."""
    draft: Draft
    first: int | None = None
    """The first entry of the batch that was not applied before."""
    read_bytes: int = 0
    whole: bool = False
    mail: bool = False
    said: int = 0
    is_urgent: bool = False
    frames: bool = False
    keys: set[str] = field(default_factory=set)
    call_keys: set[str] = field(default_factory=set)

    def change(self, key: bytes) -> Change:
        """What has to be written. The draft is gone: it is the change's state."""
        state = self.draft.freeze()
        if self.whole:
            return Change(key=key, state=state, whole=True)
        messages = state.conversation[len(state.conversation) - self.said :] if self.said else ()
        return Change(
            key=key, state=state, context_keys=frozenset(self.keys), call_keys=frozenset(self.call_keys),
            frames=self.frames, messages=messages, mail=self.mail,
        )  # fmt: skip


def decode_batch(records: Sequence[Record], log: LogReader) -> tuple[Decoded, Poison]:
    """The entries among ``records``, and the rest. Raises ``NewerFormat``: nothing is skipped for it."""
    codec, partitions = log.codec, log.partitions
    entries: list[tuple[Record, Entry]] = []
    poison: Poison = []
    for record in records:
        try:
            entries.append((record, entry_of(record, codec, partitions)))
        except UndecodableRecord as exc:
            poison.append((record, exc))
    return entries, poison


def fold_batch(
    entries: Decoded, bases: Mapping[bytes, State | None], limits: Limits, after_invocation: bool
) -> tuple[dict[bytes, Touched], Poison]:
    """What ``entries`` make of ``bases``, the states before them; and the forged ones. The hot loop."""
    touched: dict[bytes, Touched] = {}
    forged: Poison = []
    for record, entry in entries:
        key: bytes = record.key  # type: ignore[assignment]  # an entry has one
        one = touched.get(key)
        if one is None:
            one = touched[key] = _begin(bases[key])
        verdict = advance(one.draft, record.offset, entry, limits)
        if verdict is Verdict.SKIPPED:
            continue
        if one.first is None:
            one.first = record.offset
        one.read_bytes += len(record.value or b"")
        if verdict is Verdict.APPLIED:
            mark = _MARKS.get(type(entry.body))
            if mark is not None:
                mark(one, entry.body)
            if entry.body.call is not None:
                one.call_keys.add(entry.body.call)
            if type(entry.body) in _URGENT and asks_for_checkpoint(entry.body, one.draft, after_invocation):
                one.is_urgent = True
        elif verdict is Verdict.DELIVERED:
            one.mail = True
        elif verdict is Verdict.STALE and type(entry.body) is b.EffectSettled:
            one.mail = True  # what a former owner knows of an effect in doubt
        elif verdict is Verdict.FORGED:
            forged.append((record, UndecodableRecord(verdict.value, process_id=entry.process_id)))
    return touched, forged


def _begin(base: State | None) -> Touched:
    return Touched(base, Draft(), whole=True) if base is None else Touched(base, base.thaw())


# --- what a body touches ----------------------------------------------------------------------------------------------
def _one_key(one: Touched, body: Any) -> None:
    one.keys.add(body.key)


def _many_keys(one: Touched, body: b.ContextUpdatedMany) -> None:
    one.keys.update(body.values)


def _patched_keys(one: Touched, body: b.ContextPatched) -> None:
    one.keys.update(load(body.patch))


def _all_keys(one: Touched, body: b.ContextCleared) -> None:
    if one.base is not None:
        one.keys.update(one.base.values_json)


def _message(one: Touched, body: b.MessageSaid) -> None:
    one.said += 1


def _mailbox(one: Touched, body: b.Received) -> None:
    one.mail = True


def _call(one: Touched, body: Any) -> None:
    one.call_keys.add(body.key)


def _call_and_mailbox(one: Touched, body: Any) -> None:
    one.call_keys.add(body.key)
    one.mail = True


def _frame(one: Touched, body: b.AgentStarted) -> None:
    one.frames = True


def _turn(one: Touched, body: b.TurnEnded) -> None:
    """Its calls are gone: those the batch made are marked already."""
    one.frames = True
    if one.base is not None:
        prefix = f"{body.number}/"
        one.call_keys.update(key for key in one.base.calls if key.startswith(prefix))


def _batch(one: Touched, body: b.ContentBatch) -> None:
    if body.cleared and one.base is not None:
        one.keys.update(one.base.values_json)
    one.keys.update(body.values, load(body.deleted))
    one.said += len(load(body.messages))


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
    b.MessageSaid: _message,
    b.ContentBatch: _batch,
    b.Received: _mailbox,
    b.CancelAccepted: _mailbox,
    b.GateResolved: _call_and_mailbox,
    b.EffectSettled: _call_and_mailbox,
    b.AgentStarted: _frame,
    b.TurnEnded: _turn,
    **dict.fromkeys(_CALLS, _call),
    b.Rewound: _everything,
    b.Forked: _everything,
    b.Finished: _everything,
}
"""Bodies beyond these change only what every write brings along: a test holds them to it."""

_URGENT = frozenset({b.LifecycleChanged, b.Custom, b.Released, b.Finished, b.InvocationEnded})
