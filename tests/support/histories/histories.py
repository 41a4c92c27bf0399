"""Random histories of a few processes: claims, owners' entries, duplicates, gaps, stale and forged ones, poison.

``steps()`` is a hypothesis strategy, ``write_history`` turns what it gives into records and knows which of them are
entries, so that ``expected_states`` needs no reader. Ids are numbered: the same steps give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from history_bodies import FITTING, asked, waited, wrote
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import advance, fold
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft, State, new_state
from seekpoint.schemas.wire.codec import encode

__all__ = ["ACTIONS", "POISON", "PROCESS_IDS", "Append", "Step", "Written", "expected_states", "steps", "write_history"]

PROCESS_IDS = ("case-17", "case-18", "ü", "zz", "shared:rate")
ACTIONS = (
    *("update",) * 6,
    *("say",) * 3,
    *("claim",) * 3,
    *("run",) * 8,
    *("work",) * 6,
    *("write",) * 3,
    *("wait",) * 3,
    "share",
    "seed",
    *("custom",) * 3,
    "stale_outcome",
    "verdict",
    "rewind",
    "lost_claim",
    "heal_claim",
    "accept_claim",
    "release",
    "signal",
    "signal_again",
    "cancel",
    "submit",
    "submit",
    "suspend",
    "resume",
    "redrive",
    "receive",
    "move",
    "illegal_move",
    "duplicate",
    "gap",
    "stale",
    "forged",
    "forged_external",
    "finish",
    "poison",
    "poison",
)
POISON = ("junk", "empty", "null_value", "truncated", "trailing", "fingerprint", "wrong_key", "null_key", "elsewhere")


def _seed_state() -> str:
    """An owned process with a step under way, as JSON text."""
    claim = (1 << 64).to_bytes(16, "big")
    state = new_state()
    for seq, body in enumerate((b.ContextUpdated("key-1", "0"), b.StepStarted("call-0:1", 1, "call", f"{0:032}")), 1):
        if seq == 1:
            state = fold(state, 0, Entry(claim, "seed", None, 0, None, None, 0, None, None, None, b.Claim(0, "n", "b")))
        state = fold(state, seq, Entry(claim, "seed", seq, 1, claim, None, 0, None, None, None, body))
    return state.to_bytes().decode()


_SEED = _seed_state()


class Step(NamedTuple):
    """One thing that happens to a process; ``number`` picks among variants."""

    process_id: str
    action: str
    number: int


class Written(NamedTuple):
    """One record; ``entry`` is None for poison."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    entry: Entry | None


Append = Callable[[int, bytes | None, bytes | None], int]
"""Append (partition, key, value), give the offset."""


def steps(size_max: int = 60) -> st.SearchStrategy[list[Step]]:
    """Lists of steps."""
    one = st.builds(Step, st.sampled_from(PROCESS_IDS), st.sampled_from(ACTIONS), st.integers(0, 30))
    return st.lists(one, max_size=size_max)


def write_history(history: Sequence[Step], append: Append, partitions: int) -> list[Written]:
    """Append what ``history`` says, and say what was appended."""
    writer = _Writer(append, partitions)
    for step in history:
        writer.take(step)
    return writer.written


def expected_states(written: Sequence[Written], process_ids: Sequence[str] = PROCESS_IDS) -> dict[str, State]:
    """A plain fold from zero of what was written, of each process."""
    states = {process_id: new_state() for process_id in process_ids}
    for one in written:
        if one.entry is not None:
            states[one.entry.process_id] = fold(states[one.entry.process_id], one.offset, one.entry)
    return states


@dataclass
class _Writer:
    append: Append
    partitions: int
    written: list[Written] = field(default_factory=list)
    drafts: dict[str, Draft] = field(default_factory=dict)
    owners: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    signals: dict[str, bytes] = field(default_factory=dict)
    ids: int = 0

    def take(self, step: Step) -> None:
        """Let one step happen."""
        draft = self.drafts.setdefault(step.process_id, Draft())
        if step.action == "poison":
            self._poison(step)
            return
        if step.action == "work":
            self._work(step, draft)
            return
        make = getattr(self, f"_{step.action}", None)
        entry = make(step, draft) if make is not None else self._own(step, draft, self._body(step))
        if entry is not None:
            self._put(entry)

    def _put(self, entry: Entry) -> None:
        key = entry.process_id.encode()
        partition = partition_of(key, self.partitions)
        value = encode(entry)
        offset = self.append(partition, key, value)
        self.written.append(Written(partition, offset, key, value, entry))
        before = self.drafts[entry.process_id].owner
        advance(self.drafts[entry.process_id], offset, entry)
        draft = self.drafts[entry.process_id]
        if before is not None and draft.owner != before:
            self.owners[entry.process_id] = (before, draft.epoch - (draft.owner is not None))

    # --- owner's entries
    def _body(self, step: Step) -> b.Body:
        number = step.number
        return {
            "update": b.ContextUpdated(f"key-{number % 5}", str(number)),
            "say": b.MessageSaid("user", f"message {number}"),
            "custom": b.Custom("paid" if number % 3 else "note", str(number)),
            "delete": b.Deleted(),
            "release": b.Released("done"),
            "move": b.LifecycleChanged("starting"),
            "illegal_move": b.LifecycleChanged("awaiting"),
            "finish": b.Finished(str(number)),
        }[step.action]

    def _own(self, step: Step, draft: Draft, body: b.Body, skip: int = 1) -> Entry | None:
        if draft.owner is None:
            return None
        return self._entry(step, body, draft.seq + skip, draft.epoch, draft.owner)

    def _receive(self, step: Step, draft: Draft) -> Entry | None:
        waiting = next(iter(draft.mailbox), None)
        return None if waiting is None else self._own(step, draft, b.Received(waiting))

    def _duplicate(self, step: Step, draft: Draft) -> Entry | None:
        mine = [one.entry for one in self.written if one.entry and one.entry.process_id == step.process_id]
        return mine[step.number % len(mine)] if mine else None

    def _gap(self, step: Step, draft: Draft) -> Entry | None:
        return self._own(step, draft, b.ContextUpdated("after", "1"), skip=2 + step.number % 3)

    def _stale(self, step: Step, draft: Draft) -> Entry | None:
        if step.process_id not in self.owners:
            return None
        owner, epoch = self.owners[step.process_id]
        return self._entry(step, b.ContextUpdated("stale", "1"), draft.seq + 1, epoch, owner)

    def _forged(self, step: Step, draft: Draft) -> Entry:
        epoch = draft.epoch + step.number % 2
        return self._entry(step, b.ContextUpdated("forged", "1"), draft.seq + 1, max(1, epoch), self._id())

    def _run(self, step: Step, draft: Draft) -> Entry | None:
        return self._pick(step, draft, asked(draft, step.number), self._chance(step))

    def _write(self, step: Step, draft: Draft) -> Entry | None:
        return self._pick(step, draft, wrote(draft, step.number), self._chance(step))

    def _wait(self, step: Step, draft: Draft) -> Entry | None:
        return self._pick(step, draft, waited(draft, step.number), self._chance(step))

    def _work(self, step: Step, draft: Draft) -> None:
        """An owner for a while, who says what fits: so that whole stories come about."""
        for _ in range(1 + step.number % 5):
            if draft.owner is None or draft.degraded is not None:
                entry: Entry | None = self._accept_claim(step, draft)
            else:
                which, topic = divmod(self._chance(step), len(FITTING))
                entry = self._pick(step, draft, FITTING[topic](draft, step.number), which)
            if entry is not None:
                self._put(entry)

    def _chance(self, step: Step) -> int:
        return step.number * 7 + len(self.written)

    def _pick(self, step: Step, draft: Draft, bodies: Sequence[b.Body], which: int) -> Entry | None:
        return self._own(step, draft, bodies[which % len(bodies)])

    def _rewind(self, step: Step, draft: Draft) -> Entry | None:
        mine = [one for one in self.written if one.entry and one.entry.process_id == step.process_id]
        state = new_state()
        for one in mine[: step.number]:
            assert one.entry is not None
            state = fold(state, one.offset, one.entry)
        if step.number % 2:
            return self._own(step, draft, b.Promoted("fork", state.seq, state.content_json()))
        return self._own(step, draft, b.Rewound(state.seq, state.content_json()))

    def _stale_outcome(self, step: Step, draft: Draft) -> Entry | None:
        if step.process_id not in self.owners:
            return None
        owner, epoch = self.owners[step.process_id]
        told = b.EffectSettled(f"effect-{step.number % 4}:1", 1, "succeeded", "3")
        return self._entry(step, told, draft.seq + 1, epoch, owner)

    # --- external entries
    def _verdict(self, step: Step, draft: Draft) -> Entry:
        key = f"effect-{step.number % 4}:1"
        if step.number % 3 == 0:
            return self._external(step, b.EffectRevoked(key, reason="taken back"))
        return self._external(step, b.EffectVerdict(key, "succeeded", "1", reason="seen"))

    def _share(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.SharedSet("rate", step.number % 4 - 1, str(step.number)))

    def _seed(self, step: Step, draft: Draft) -> Entry:
        """A replayed process's: it counts as the very first entry only."""
        return self._external(step, b.Seeded(_SEED))

    def _external(self, step: Step, body: b.Body, entry_id: bytes | None = None) -> Entry:
        return self._entry(step, body, None, 0, None, entry_id)

    def _claim(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.Claim(draft.epoch, f"node-{step.number % 3}", "boot"))

    def _lost_claim(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.Claim(draft.epoch + 1 + step.number % 2, "late", "boot"))

    def _heal_claim(self, step: Step, draft: Draft) -> Entry:
        claim = b.Claim(draft.epoch, "node", "boot", old_claim_id=draft.owner, abandon_from_seq=draft.seq + 1)
        return self._external(step, claim)

    def _accept_claim(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.Claim(draft.epoch, "person", "boot", accept_degraded=True))

    def _signal(self, step: Step, draft: Draft) -> Entry:
        entry = self._external(step, b.Signal(f"signal-{step.number}", str(step.number)))
        self.signals[step.process_id] = entry.id
        return entry

    def _signal_again(self, step: Step, draft: Draft) -> Entry | None:
        known = self.signals.get(step.process_id)
        return None if known is None else self._external(step, b.Signal("again", "1"), known)

    def _cancel(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.CancelRequested("enough"))

    def _submit(self, step: Step, draft: Draft) -> Entry:
        body = b.Submitted(
            f"agent-{step.number % 2}", str(step.number), step.number % 3, step.number, "order", "00-span"
        )
        return self._external(step, body)

    def _suspend(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.SuspendRequested("later"))

    def _resume(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.ResumeRequested("now"))

    def _redrive(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.RedriveRequested("again"))

    def _forged_external(self, step: Step, draft: Draft) -> Entry:
        return self._external(step, b.ContextUpdated("forged", "2"))

    # --- poison
    def _poison(self, step: Step) -> None:
        kind = POISON[step.number % len(POISON)]
        key = step.process_id.encode()
        home = partition_of(key, self.partitions)
        good = encode(self._external(step, b.Signal("lost", "1")))
        value: bytes | None = {
            "junk": b"no entry",
            "empty": b"",
            "null_value": None,
            "truncated": good[:-3],
            "trailing": good + b"\x00",
            "fingerprint": good[:2] + b"\xff" * 8 + good[10:],
        }.get(kind, good)
        given = {"wrong_key": b"case-17" if key != b"case-17" else b"zz", "null_key": None}.get(kind, key)
        partition = (home + 1) % self.partitions if kind == "elsewhere" else home
        if kind == "wrong_key":
            partition = partition_of(given or b"", self.partitions)
        offset = self.append(partition, given, value)
        self.written.append(Written(partition, offset, given, value, None))

    def _entry(
        self, step: Step, body: b.Body, seq: int | None, epoch: int, claim: bytes | None, entry_id: bytes | None = None
    ) -> Entry:
        return Entry(
            entry_id or self._id(),
            step.process_id,
            seq,
            epoch,
            claim,
            None,
            1_000 + len(self.written),
            None,
            None,
            None,
            body,
        )

    def _id(self) -> bytes:
        self.ids += 1
        return self.ids.to_bytes(16, "big")
