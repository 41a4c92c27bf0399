"""The fold: who may say what (each row of the admission table), and that it is one pure function in any batching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import an_id, any_entry, claim, external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.fold import (
    MAILBOX_BYTES_MAX,
    MAILBOX_ITEMS_MAX,
    REMEMBERED_IDS_MAX,
    Verdict,
    advance,
    fold,
    try_own,
)
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.parts import Degraded
from seekpoint.schemas.state import COUNTERS, Draft, State, new_state


def folded(*entries: Entry, start: State | None = None) -> State:
    """The state after ``entries`` at the offsets that follow."""
    state = new_state() if start is None else start
    for offset, entry in enumerate(entries, state.offset + 1):
        state = fold(state, offset, entry)
    return state


def verdict(state: State, entry: Entry) -> Verdict:
    """What becomes of ``entry`` as the next one of ``state``."""
    return advance(state.thaw(), state.offset + 1, entry)


def counted(before: State, after: State) -> dict[str, int]:
    """The counters that moved."""
    moved = {name: getattr(after, name) - getattr(before, name) for name in COUNTERS}
    return {name: count for name, count in moved.items() if count}


OWNED = folded(claim(1), own(1), own(2))
"""A process with an owner and two entries."""
GAPPED = folded(own(4), start=OWNED)
MISFITTED = folded(own(3, b.LifecycleChanged("stopping")), start=OWNED)
RELEASED = folded(own(3, b.Released()), start=OWNED)
FINISHED = folded(own(3, b.Finished('{"ok":true}')), start=OWNED)
SIGNAL = b.Signal("wake", '{"n":1}')


# --- the admission table, row by row ----------------------------------------------------------------------------------
def test_an_entry_at_or_below_the_offset_is_skipped() -> None:
    """Already applied: nothing changes, no counter either."""
    for offset in (OWNED.offset, OWNED.offset - 1, 0, -1):
        assert fold(OWNED, offset, own(3)) == OWNED
        assert advance(OWNED.thaw(), offset, own(3)) is Verdict.SKIPPED


def test_offsets_may_have_holes() -> None:
    """Transactions leave holes: the next entry is the one with the next seq, at whatever offset."""
    assert fold(OWNED, 1_000_000, own(3)).seq == 3


def test_an_owner_of_a_lower_epoch_is_stale() -> None:
    """What a fenced zombie writes is ignored and counted, whatever its seq and claim."""
    state = folded(claim(2, 1), start=OWNED)
    for late in (own(3), own(1), own(9), own(3, claim_id=2), own(3, b.Finished())):
        assert verdict(state, late) is Verdict.STALE
        after = folded(late, start=state)
        assert after.hash == state.hash
        assert counted(state, after) == {"stale_entries": 1}


def test_an_owner_of_a_released_epoch_is_stale() -> None:
    """A release ends its epoch: what the owner sent behind it counts as a former owner's."""
    assert verdict(RELEASED, own(4)) is Verdict.STALE
    assert counted(RELEASED, folded(own(4), start=RELEASED)) == {"stale_entries": 1}
    assert folded(own(4), start=RELEASED).hash == RELEASED.hash


@pytest.mark.parametrize(
    "entry",
    [
        own(3, epoch=2),
        own(3, claim_id=9),
        own(3)._replace(claim_id=None),
        own(3, SIGNAL),
        own(3, b.Claim(1)),
        external(b.ContextUpdated("a", "1"), 7),
        external(b.Released(), 7),
        external(b.Finished(), 7),
    ],
    ids=["epoch", "claim", "no claim", "signal with seq", "claim with seq", "update", "release", "finish"],
)
def test_an_entry_that_no_owner_wrote_is_forged(entry: Entry) -> None:
    """Higher epoch, another claim, or a body that is not for who writes it: counted, nothing else changes."""
    assert verdict(OWNED, entry) is Verdict.FORGED
    after = folded(entry, start=OWNED)
    assert after.hash == OWNED.hash
    assert counted(OWNED, after) == {"forged_entries": 1}


def test_an_owner_entry_before_any_claim_is_forged() -> None:
    """Nobody owns a new process, so nobody wrote it."""
    for entry in (own(1, epoch=0), own(1, epoch=0)._replace(claim_id=None), own(1)):
        assert verdict(new_state(), entry) is Verdict.FORGED


def test_the_next_seq_is_applied() -> None:
    """seq = state.seq + 1: the body counts, and the kind is remembered."""
    after = folded(own(3, b.ContextUpdated("a", "[1]")), start=OWNED)
    assert (after.seq, after.context["a"], after.last_kind) == (3, [1], "context_updated")
    assert counted(OWNED, after) == {}


def test_an_illegal_transition_counts_its_seq_and_degrades() -> None:
    """The body is not applied, the facts are kept, and the owner goes on."""
    assert verdict(OWNED, own(3, b.LifecycleChanged("stopping"))) is Verdict.MISFIT
    assert (MISFITTED.seq, MISFITTED.lifecycle) == (3, "created")
    assert MISFITTED.degraded == Degraded("illegal_transition", 3, 3, "created does not lead to stopping")
    after = folded(own(4, b.LifecycleChanged("starting")), start=MISFITTED)
    assert (after.seq, after.lifecycle, after.degraded) == (4, "starting", MISFITTED.degraded)


def test_the_first_misfit_is_the_one_that_is_kept() -> None:
    """A person wants to see where it began."""
    after = folded(own(4, b.LifecycleChanged("nonsense")), start=MISFITTED)
    assert after.degraded == MISFITTED.degraded
    assert after.seq == 4


def test_a_seq_that_was_applied_is_a_duplicate() -> None:
    """Dropped and counted; also with another body."""
    for seq in (2, 1, 0, -1):
        entry = own(seq, b.ContextCleared())
        assert verdict(OWNED, entry) is Verdict.DUPLICATE
        assert folded(entry, start=OWNED).hash == OWNED.hash
        assert counted(OWNED, folded(entry, start=OWNED)) == {"duplicate_entries": 1}


def test_a_gap_degrades_with_its_facts() -> None:
    """What was expected, what was found; the entry behind the gap is not applied."""
    assert verdict(OWNED, own(4)) is Verdict.GAP
    assert GAPPED.degraded == Degraded("gap", 3, 4)
    assert (GAPPED.seq, GAPPED.context, GAPPED.abandoned_entries) == (2, OWNED.context, 1)


def test_behind_a_gap_everything_of_the_owner_is_abandoned() -> None:
    """The missing entry too, when it comes late: order in the log is the truth. A duplicate stays one."""
    for entry in (own(5), own(3), own(9, b.Released()), own(3, b.Finished())):
        assert verdict(GAPPED, entry) is Verdict.ABANDONED
        assert folded(entry, start=GAPPED).hash == GAPPED.hash
    assert folded(own(5), own(3), start=GAPPED).abandoned_entries == 3
    assert verdict(GAPPED, own(2)) is Verdict.DUPLICATE


def test_a_claim_of_the_present_epoch_wins() -> None:
    """epoch + 1, and the claim's own id is the owner; seq goes on."""
    assert verdict(OWNED, claim(2, 1)) is Verdict.CLAIM_WON
    after = folded(claim(2, 1), own(3, epoch=2, claim_id=2), start=OWNED)
    assert (after.epoch, after.owner, after.owner_node, after.owner_boot) == (2, an_id(2), "node", "boot")
    assert after.seq == 3


def test_a_claim_of_another_epoch_is_lost() -> None:
    """It is counted, changes nothing, and the owner goes on."""
    for expected in (0, 2, -1):
        assert verdict(OWNED, claim(2, expected)) is Verdict.CLAIM_LOST
        after = folded(claim(2, expected), start=OWNED)
        assert after.hash == OWNED.hash
        assert counted(OWNED, after) == {"lost_claims": 1}
        assert verdict(after, own(3)) is Verdict.APPLIED


def test_a_claim_of_a_released_process_wins() -> None:
    """The epoch still counts on."""
    after = folded(claim(2, 1), start=RELEASED)
    assert (after.epoch, after.owner, after.seq) == (2, an_id(2), 3)


@pytest.mark.parametrize("state", [GAPPED, MISFITTED], ids=["gap", "misfit"])
def test_a_degraded_process_refuses_a_plain_claim(state: State) -> None:
    """A person decides, nobody else."""
    assert verdict(state, claim(2, 1)) is Verdict.CLAIM_LOST
    assert folded(claim(2, 1), start=state).hash == state.hash


@pytest.mark.parametrize("state", [GAPPED, MISFITTED], ids=["gap", "misfit"])
def test_a_claim_that_accepts_the_loss_takes_a_degraded_process(state: State) -> None:
    """accept_degraded: the process is whole again, from where it stands."""
    after = folded(claim(2, 1, accept_degraded=True), start=state)
    assert (after.epoch, after.owner, after.degraded) == (2, an_id(2), None)
    assert verdict(after, own(state.seq + 1, epoch=2, claim_id=2)) is Verdict.APPLIED


def test_a_claim_that_accepts_the_loss_still_needs_the_epoch() -> None:
    """A person's choice does not make a late claim win."""
    assert verdict(GAPPED, claim(2, 0, accept_degraded=True)) is Verdict.CLAIM_LOST


@pytest.mark.parametrize("accept", [False, True])
def test_a_finished_process_refuses_every_claim(accept: bool) -> None:
    """O8: for ever, whatever the claim carries."""
    late = claim(2, 1, accept_degraded=accept, old_claim_id=an_id(1), abandon_from_seq=1)
    assert verdict(FINISHED, late) is Verdict.CLAIM_LOST
    assert folded(late, start=FINISHED).hash == FINISHED.hash


# --- O5: the owner heals its own gap ----------------------------------------------------------------------------------
def healing(abandon_from_seq: int | None, old_claim: int = 1, expected_epoch: int = 1) -> Entry:
    """The claim of an owner that was uncertain."""
    old = {"old_claim_id": an_id(old_claim), "abandon_from_seq": abandon_from_seq}
    return claim(2, expected_epoch, **old)


@pytest.mark.parametrize("abandon_from_seq", [3, 2, 1])
def test_the_present_owner_heals_a_gap_above_what_it_got_acknowledged(abandon_from_seq: int) -> None:
    """Nothing acknowledged is missing: no person is needed, seq goes on from what was applied."""
    after = folded(healing(abandon_from_seq), start=GAPPED)
    assert (after.epoch, after.owner, after.degraded) == (2, an_id(2), None)
    assert verdict(after, own(3, epoch=2, claim_id=2)) is Verdict.APPLIED
    assert verdict(after, own(3)) is Verdict.STALE


@pytest.mark.parametrize(
    "late",
    [healing(4), healing(None), healing(3, old_claim=9), healing(3, expected_epoch=0)],
    ids=["acknowledged entries are lost", "names no seq", "a former owner", "another epoch"],
)
def test_nobody_else_heals_a_gap_and_no_real_loss_is_healed(late: Entry) -> None:
    """abandon_from_seq counts from the present owner only, and only if nothing it was told of is missing."""
    assert verdict(GAPPED, late) is Verdict.CLAIM_LOST
    assert folded(late, start=GAPPED).hash == GAPPED.hash


def test_a_healing_claim_without_a_gap_is_a_claim() -> None:
    """Everything landed, or the end of it is missing: nothing to heal."""
    after = folded(healing(3), start=OWNED)
    assert (after.epoch, after.owner) == (2, an_id(2))


def test_healing_a_gap_does_not_heal_a_misfit() -> None:
    """What a person has to look at stays, before, under and after the gap."""
    assert folded(healing(4), start=MISFITTED).degraded == MISFITTED.degraded
    gapped = folded(own(5), start=MISFITTED)
    assert gapped.degraded == Degraded("gap", 4, 5, earlier=MISFITTED.degraded)
    assert folded(healing(4), start=gapped).degraded == MISFITTED.degraded
    assert folded(claim(2, 1, accept_degraded=True), start=gapped).degraded is None


def test_a_gap_of_a_released_process_cannot_come_to_be() -> None:
    """Behind a release everything is stale; and nobody is the present owner who could heal."""
    assert folded(own(9), start=RELEASED).degraded is None


# --- O1: externals only fill the mailbox ------------------------------------------------------------------------------
@pytest.mark.parametrize("body", [SIGNAL, b.CancelRequested("enough")], ids=["signal", "cancel"])
@pytest.mark.parametrize("state", [new_state(), OWNED, GAPPED, RELEASED], ids=["new", "owned", "degraded", "released"])
def test_an_external_entry_fills_the_mailbox_and_nothing_else(state: State, body: b.Body) -> None:
    """Also of a degraded process, and before anybody owned it; seq, epoch and content stay."""
    assert verdict(state, external(body, 7, "ann")) is Verdict.DELIVERED
    after = folded(external(body, 7, "ann"), start=state)
    (item,) = after.mailbox.values()
    assert (item.id, item.kind, item.actor) == (an_id(7), body.KIND, "ann")
    assert (after.seq, after.epoch, after.owner) == (state.seq, state.epoch, state.owner)
    assert after.content_hash == state.content_hash
    assert after.last_kind == body.KIND


def test_a_signal_carries_its_name_and_payload() -> None:
    """What was sent, decoded anew each time."""
    (item,) = folded(external(SIGNAL, 7)).mailbox.values()
    assert (item.name, item.payload) == ("wake", {"n": 1})
    assert item.payload is not item.payload


def test_an_external_id_counts_once() -> None:
    """A sender that retries delivers once, even after the owner took the first."""
    state = folded(external(SIGNAL, 7), start=OWNED)
    assert verdict(state, external(SIGNAL, 7)) is Verdict.DUPLICATE
    taken = folded(own(3, b.Received(an_id(7))), start=state)
    assert not taken.mailbox
    assert verdict(taken, external(SIGNAL, 7)) is Verdict.DUPLICATE
    assert taken.mailbox_bytes == 0


def test_the_owner_takes_an_external_out_by_an_entry_of_its_own() -> None:
    """So a replay sees what the agent saw, when it saw it; one that is not there is taken without effect."""
    state = folded(external(SIGNAL, 7), external(SIGNAL, 8), own(3, b.Received(an_id(7))), start=OWNED)
    assert list(state.mailbox) == [an_id(8)]
    assert folded(own(4, b.Received(an_id(99))), start=state).mailbox == state.mailbox


def test_the_last_ids_are_remembered_and_no_more() -> None:
    """1,024 of them; the oldest is forgotten first."""
    entries = [claim(1)]
    for number in range(REMEMBERED_IDS_MAX + 1):
        entries += [external(SIGNAL, 10_000 + number), own(number + 1, b.Received(an_id(10_000 + number)))]
    state = folded(*entries)
    assert len(state.remembered) == REMEMBERED_IDS_MAX
    assert verdict(state, external(SIGNAL, 10_000)) is Verdict.DELIVERED
    assert verdict(state, external(SIGNAL, 10_001)) is Verdict.DUPLICATE


def test_an_external_that_waits_longer_than_its_id_is_remembered_is_still_there_once() -> None:
    """Forgetting an id must not let its entry in twice while the first still waits."""
    entries = [claim(1), external(SIGNAL, 7)]
    for number in range(REMEMBERED_IDS_MAX):
        entries += [external(SIGNAL, 10_000 + number), own(number + 1, b.Received(an_id(10_000 + number)))]
    state = folded(*entries)
    assert an_id(7) not in state.remembered
    after = folded(external(SIGNAL, 7), start=state)
    assert verdict(state, external(SIGNAL, 7)) is Verdict.DUPLICATE
    assert (list(after.mailbox), after.mailbox_bytes) == ([an_id(7)], state.mailbox_bytes)


def test_a_full_mailbox_refuses_and_counts() -> None:
    """By number of entries; the refused id is not remembered, so it can be sent again when there is room."""
    state = folded(claim(1), *(external(SIGNAL, 10_000 + number) for number in range(MAILBOX_ITEMS_MAX)))
    assert len(state.mailbox) == MAILBOX_ITEMS_MAX
    assert verdict(state, external(SIGNAL, 7)) is Verdict.REFUSED
    after = folded(external(SIGNAL, 7), start=state)
    assert (after.hash, counted(state, after)) == (state.hash, {"refused_externals": 1})
    room = folded(own(1, b.Received(an_id(10_000))), start=after)
    assert verdict(room, external(SIGNAL, 7)) is Verdict.DELIVERED


def test_a_heavy_mailbox_refuses_and_counts() -> None:
    """By bytes too: one million, however few the entries."""
    heavy = b.Signal("big", '"' + "x" * 600_000 + '"')
    state = folded(external(heavy, 7))
    assert verdict(state, external(heavy, 8)) is Verdict.REFUSED
    assert verdict(state, external(SIGNAL, 8)) is Verdict.DELIVERED
    assert state.mailbox_bytes <= MAILBOX_BYTES_MAX


def test_an_external_of_a_finished_process_is_counted_only() -> None:
    """The gravestone stays as it is."""
    assert verdict(FINISHED, external(SIGNAL, 7)) is Verdict.REFUSED
    after = folded(external(SIGNAL, 7), start=FINISHED)
    assert (after.hash, counted(FINISHED, after)) == (FINISHED.hash, {"refused_externals": 1})


# --- O7, O8 -----------------------------------------------------------------------------------------------------------
def test_finishing_leaves_a_gravestone() -> None:
    """O8: lifecycle, epoch, seq, offset and result; nothing else of what was."""
    full = folded(
        own(4, b.LifecycleChanged("starting")),
        own(5, b.MessageSaid("user", "hi")),
        own(6, b.InvocationTriggered("webhook")),
        external(SIGNAL, 7),
        own(7, b.Finished('{"$decimal":"1.10"}')),
        start=MISFITTED,
    )
    assert full.finished
    assert (full.lifecycle, full.epoch, full.seq, full.last_kind) == ("starting", 1, 7, "finished")
    assert str(full.result) == "1.10"
    bare = new_state()
    for name in (
        "context",
        "conversation",
        "invocation",
        "invocations",
        "mailbox",
        "remembered",
        "lineage",
        "degraded",
    ):
        assert getattr(full, name) == getattr(bare, name)
    assert (full.owner, full.owner_node, full.owner_boot, full.content_bytes, full.mailbox_bytes) == (
        None,
        None,
        None,
        0,
        0,
    )


def test_what_the_owner_sends_behind_its_finish_is_stale() -> None:
    """Its epoch ended with it."""
    for body in (b.ContextUpdated("a", "1"), b.Rewound(1, new_state().content_json()), b.Finished("2")):
        assert verdict(FINISHED, own(4, body)) is Verdict.STALE
        assert folded(own(4, body), start=FINISHED).hash == FINISHED.hash


def test_a_rewind_restores_the_content_and_only_the_content() -> None:
    """O7: never epoch, owner, seq, mailbox or ids; the history stays and the lineage tells."""
    early = folded(own(3, b.LifecycleChanged("starting")), own(4, b.MessageSaid("user", "hi")), start=OWNED)
    later = folded(
        own(5, b.ContextCleared()), own(6, b.LifecycleChanged("running")), external(SIGNAL, 7), claim(2, 1), start=early
    )
    back = folded(own(7, b.Rewound(4, early.content_json()), epoch=2, claim_id=2), start=later)
    assert back.content_hash == early.content_hash
    assert (back.seq, back.epoch, back.owner) == (7, 2, an_id(2))
    assert (back.mailbox, back.remembered) == (later.mailbox, later.remembered)
    assert (back.lineage.rewound_to_seq, back.lineage.rewinds) == (4, 1)
    assert back.content_bytes == early.content_bytes


def test_a_fork_starts_with_its_parents_content() -> None:
    """O7: one entry carries it; content_hash is the parent's, ownership is its own."""
    parent = folded(own(3, b.MessageSaid("user", "hi")), own(4, b.ContextUpdated("$odd", "1")), start=OWNED)
    child = folded(claim(5), own(1, b.Forked("case-17", 4, parent.content_json()), claim_id=5))
    assert child.content_hash == parent.content_hash
    assert child.hash != parent.hash
    assert (child.lineage.parent_id, child.lineage.parent_seq, child.seq) == ("case-17", 4, 1)


# --- one pure function, however it is called --------------------------------------------------------------------------
BODIES = [
    *(b.ContextUpdated(key, text) for key in "ab" for text in ("1", '"\\n"')),
    *(b.MessageSaid("user", text) for text in ("hi", "ho")),
    *(b.LifecycleChanged(to) for to in ("starting", "running", "stopping")),
    *(b.Received(an_id(number)) for number in (50, 51)),
    *(b.InvocationTriggered("t", "[1]"), b.InvocationStarted(), b.InvocationEnded("succeeded")),
    *(b.ContextCleared(), b.ContextDeleted("a"), b.Released(), b.Finished("1")),
]
MOSTLY_0 = st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1, 2])
STEPS = st.tuples(st.sampled_from(["own", "own", "own", "claim", "external"]), st.integers(0, 63), MOSTLY_0, MOSTLY_0)


def histories(size_max: int = 30) -> st.SearchStrategy[list[Entry]]:
    """Entries as owners, zombies, clients and a confused operator would write them: mostly fitting, often not."""
    return st.lists(STEPS, max_size=size_max).map(_entries)


def _entries(steps: list[tuple[str, int, int, int]]) -> list[Entry]:
    reference, entries = Reference(), []
    for number, (what, choice, seq_off, epoch_off) in enumerate(steps):
        if what == "own":
            seq, epoch = reference.seq + 1 + seq_off, reference.epoch + epoch_off
            owner = an_id(99) if choice == 0 else reference.owner or an_id(100)
            entry = own(seq, BODIES[choice % len(BODIES)], epoch=epoch)._replace(claim_id=owner)
        elif what == "claim":
            healing = {"old_claim_id": reference.owner, "abandon_from_seq": reference.seq + 1 + seq_off}
            more = {"accept_degraded": choice % 8 == 0} | (healing if choice % 3 == 0 else {})
            entry = claim(100 + number, reference.epoch + epoch_off, **more)
        else:
            entry = external([SIGNAL, b.CancelRequested(), b.Custom("odd")][choice % 3], 50 + choice % 4)
        entries.append(entry)
        reference.take(entry)
    return entries


LEADS_TO = {"created": {"starting"}, "starting": {"running", "stopping"}, "running": {"stopping"}, "stopping": set()}


@dataclass
class Reference:
    """The admission table once more, in other words: plain values, no sharing, no speed."""

    epoch: int = 0
    owner: bytes | None = None
    seq: int = 0
    gap: int | None = None
    misfit: bool = False
    finished: bool = False
    applied: list[tuple[int, int]] = field(default_factory=list)
    mailbox: list[bytes] = field(default_factory=list)
    taken: set[bytes] = field(default_factory=set)
    lifecycle: str = "created"
    messages: list[str] = field(default_factory=list)
    context: dict[str, str] = field(default_factory=dict)
    triggered: bool = False

    def take(self, entry: Entry) -> None:
        body = entry.body
        if isinstance(body, b.Claim) and entry.seq is None:
            self._claim(entry.id, body)
        elif entry.seq is None:
            if isinstance(body, b.Signal | b.CancelRequested) and not self.finished and entry.id not in self.taken:
                self.taken.add(entry.id)
                self.mailbox.append(entry.id)
        elif entry.epoch == self.epoch and entry.claim_id == self.owner and self.owner and not self.gap:
            if entry.seq == self.seq + 1:
                self.seq += 1
                self.applied.append((entry.epoch, entry.seq))
                self._apply(body)
            elif entry.seq > self.seq + 1:
                self.gap = self.seq + 1

    def _claim(self, claim_id: bytes, body: b.Claim) -> None:
        mine = body.old_claim_id == self.owner is not None and body.abandon_from_seq is not None
        explained = mine and (self.gap is None or self.gap >= (body.abandon_from_seq or 0))
        whole = self.gap is None and not self.misfit
        if not self.finished and body.expected_epoch == self.epoch and (whole or body.accept_degraded or explained):
            self.epoch += 1
            self.owner, self.gap = claim_id, None
            self.misfit = self.misfit and not body.accept_degraded

    def _apply(self, body: b.Body) -> None:
        match body:
            case b.ContextUpdated(key, value):
                self.context[key] = value
            case b.ContextDeleted(key):
                self.context.pop(key, None)
            case b.ContextCleared():
                self.context = {}
            case b.MessageSaid(_, text):
                self.messages.append(text or "")
            case b.LifecycleChanged(to):
                legal = to in LEADS_TO[self.lifecycle]
                self.lifecycle, self.misfit = (to, self.misfit) if legal else (self.lifecycle, True)
            case b.InvocationTriggered():
                self.triggered = True
            case b.InvocationStarted():
                self.misfit = self.misfit or not self.triggered
            case b.InvocationEnded():
                self.triggered, self.misfit = False, self.misfit or not self.triggered
            case b.Received(external_id):
                self.mailbox = [one for one in self.mailbox if one != external_id]
            case b.Released():
                self.owner = None
            case b.Finished():
                self.finished, self.owner, self.misfit = True, None, False
                self.mailbox, self.messages, self.context, self.triggered = [], [], {}, False


@given(histories())
@settings(max_examples=500)
def test_the_fold_agrees_with_an_independent_reading_of_the_table(history: list[Entry]) -> None:
    """After every entry of a random history: the owner, the seqs that count, what the agent would see."""
    reference, draft = Reference(), Draft()
    applied = []
    for offset, entry in enumerate(history):
        reference.take(entry)
        if advance(draft, offset, entry) in (Verdict.APPLIED, Verdict.MISFIT):
            applied.append((entry.epoch, entry.seq))
        assert (draft.epoch, draft.owner, draft.seq) == (reference.epoch, reference.owner, reference.seq)
        assert (draft.finished, list(draft.mailbox)) == (reference.finished, reference.mailbox)
        assert (draft.degraded is not None) == (reference.gap is not None or reference.misfit)
    assert applied == reference.applied
    assert (draft.lifecycle, draft.values_json) == (reference.lifecycle, reference.context)
    assert [message.text for message in draft.conversation] == reference.messages
    assert (draft.invocation is not None) == reference.triggered


@given(histories(), st.lists(st.integers(0, 30), max_size=6))
@settings(max_examples=200)
def test_batches_make_no_difference(history: list[Entry], cuts: Sequence[int]) -> None:
    """In any batching, through bytes or not, from any earlier state: equal to one by one, counters included."""
    one_by_one = folded(*history)
    draft = Draft()
    for offset, entry in enumerate(history):
        if offset in cuts:
            draft = State.from_bytes(draft.freeze().to_bytes()).thaw()
        advance(draft, offset, entry)
    in_batches = draft.freeze()
    assert in_batches == one_by_one
    assert (in_batches.hash, in_batches.content_bytes, in_batches.mailbox_bytes) == (
        one_by_one.hash,
        one_by_one.content_bytes,
        one_by_one.mailbox_bytes,
    )


@given(histories(), st.integers(0, 30))
def test_reading_a_part_twice_changes_nothing(history: list[Entry], again: int) -> None:
    """The skip rule: whoever reads from an earlier offset ends with the same state."""
    state = folded(*history)
    for offset, entry in list(enumerate(history))[again:]:
        state = fold(state, offset, entry)
    assert state == folded(*history)


@given(histories(), histories(8))
@settings(max_examples=150)
def test_an_old_state_stays_as_it_was(history: list[Entry], other: list[Entry]) -> None:
    """Pure: two futures of one state do not see each other, and the state sees neither."""
    base = folded(*history)
    before = base.to_bytes()
    left, right = folded(*other, start=base), folded(*reversed(other), start=base)
    assert base.to_bytes() == before
    assert left == folded(*other, start=State.from_bytes(before))
    assert right == folded(*reversed(other), start=State.from_bytes(before))


def test_two_futures_of_one_conversation_do_not_mix() -> None:
    """Both append to the same conversation, in turns; each has its own."""
    left = right = folded(own(3, b.MessageSaid("user", "hi")), start=OWNED)
    for seq in range(4, 8):
        left = folded(own(seq, b.MessageSaid("assistant", f"left {seq}")), start=left)
        right = folded(own(seq, b.MessageSaid("assistant", f"right {seq}")), start=right)
    assert [message.text for message in left.conversation] == ["hi", *(f"left {seq}" for seq in range(4, 8))]
    assert [message.text for message in right.conversation] == ["hi", *(f"right {seq}" for seq in range(4, 8))]


@given(st.lists(any_entry(), max_size=5), st.booleans())
def test_no_decoded_entry_makes_the_fold_raise(entries: list[Entry], owned: bool) -> None:
    """Whatever the fields say; and the state can always be written and read."""
    state = folded(claim(1)) if owned else new_state()
    for number, entry in enumerate(entries):
        if owned:
            entry = entry._replace(epoch=1, claim_id=an_id(1), seq=state.seq + 1 if number % 3 else entry.seq)
        state = fold(state, state.offset + 1, entry)
        assert State.from_bytes(state.to_bytes()) == state


@given(st.lists(any_entry(), min_size=1, max_size=4))
def test_a_body_that_does_not_fit_leaves_no_trace(entries: list[Entry]) -> None:
    """try_own gives None and applies, or says why and the draft is as it was."""
    draft = OWNED.thaw()
    for entry in entries:
        if entry.body.EXTERNAL:
            continue
        before = draft.snapshot()
        if try_own(draft, draft.seq + 1, entry.body, Limits(state_bytes=200)) is not None:
            assert draft.snapshot() == before
        else:
            assert draft.seq == before.seq + 1


def test_ownership_is_never_the_last_kind() -> None:
    """last_kind tells what the process did: claims and releases are bookkeeping."""
    assert new_state().last_kind is None
    assert folded(claim(1)).last_kind is None
    assert RELEASED.last_kind == "context_updated"


def test_first_offset_is_that_of_the_first_entry() -> None:
    """Whatever became of it."""
    assert fold(new_state(), 17, own(5)).first_offset == 17
    assert fold(fold(new_state(), 17, own(5)), 20, claim(1)).first_offset == 17


@pytest.mark.parametrize("kind", [kind for kind in b.BODIES if not kind.EXTERNAL], ids=lambda kind: kind.KIND)
def test_every_owners_body_has_a_rule(kind: type[b.Body]) -> None:
    """A body that is added without a rule is found here, not by a reader."""
    assert verdict(OWNED, own(3, kind())) in (Verdict.APPLIED, Verdict.MISFIT)
