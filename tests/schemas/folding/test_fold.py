"""The fold: gravestones, rewinds and forks; it is a pure function and independent of batching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import an_id, any_entry, claim, external, own
from folding import FINISHED, GAPPED, MISFITTED, OWNED, RELEASED, SIGNAL, folded, verdict
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.fold import Verdict, advance, fold, try_apply
from seekpoint.schemas.state.budget_sums import Budget
from seekpoint.schemas.state.calls import input_digest
from seekpoint.schemas.state.process_state import COUNTERS, FIELDS, Draft, State, content_width, new_state

LIVED = (
    own(4, b.AgentStarted("refund", "3", "digest", '{"order":1}')),
    own(5, b.MessageSaid("user", "hi")),
    own(6, b.InvocationTriggered("webhook")),
    own(7, b.BudgetSet('{"usd":"5"}', "{}")),
    own(8, b.StepStarted("look:1", 1, "look", "d" * 32)),
    own(9, b.StepEnded("look:1", 1, "succeeded", output="1")),
    external(SIGNAL, 7),
    own(10, b.Finished('{"$decimal":"1.10"}')),
)


def test_a_finished_process_keeps_its_content_and_has_no_owner() -> None:
    """Context, conversation, calls and budget stay readable; owner, mail and degradation are gone."""
    before, full = folded(*LIVED[:-1], start=MISFITTED), folded(*LIVED, start=MISFITTED)
    assert full.finished
    assert (full.lifecycle, full.epoch, full.seq, full.last_kind) == ("stopped", 1, 10, "finished")
    for name in ("context", "conversation", "invocation", "calls", "budget", "agent", "content_bytes"):
        assert getattr(full, name) == getattr(before, name)
    assert (len(full.conversation), len(full.calls), full.budget is not None) == (1, 1, True)
    assert (full.owner, full.owner_node, full.owner_boot, full.degraded) == (None, None, None, None)
    assert (dict(full.mailbox), dict(full.remembered), full.mailbox_bytes) == ({}, {}, 0)
    assert (full.open_calls, full.content_dropped) == ({}, False)
    assert State.from_bytes(full.to_bytes()) == full


def test_dropping_the_content_leaves_the_gravestone() -> None:
    """O8: lifecycle, epoch, seq, offset, result and agent stay, and the hashes are equal."""
    full = folded(*LIVED, start=MISFITTED)
    grave, bare = full.without_content(), new_state()
    assert (grave.content_dropped, grave.hash) == (True, full.hash)
    kept = {"offset", "first_offset", "epoch", "seq", "lifecycle", "finished", "result_json", "content_dropped"}
    kept |= {"last_kind", "agent", "content_bytes", "budget", "started_us", "updated_us", "lifecycle_us"}
    kept |= {*COUNTERS}
    assert {name for name in FIELDS.names if getattr(grave, name) != getattr(bare, name)} <= kept
    assert (grave.lifecycle, grave.epoch, grave.seq, str(grave.result)) == ("stopped", 1, 10, "1.10")
    assert grave.agent is not None
    assert (grave.agent.name, grave.agent.version, grave.agent.input) == ("refund", "3", None)
    assert grave.agent.input_digest == input_digest('{"order":1}')
    assert grave.content_bytes == content_width(grave)
    assert State.from_bytes(grave.to_bytes()) == grave
    for entry in (own(11), external(b.Signal("late"), 9), claim(9, 1)):
        assert fold(full, 99, entry).hash == fold(grave, 99, entry).hash


def test_the_gravestone_has_what_was_spent() -> None:
    """Without limits and reservations; of a budget that counted nothing, nothing stays."""
    draft = FINISHED.thaw()
    draft.budget = Budget({"usd": Decimal(9)}, spent={"usd": Decimal("0.02")}, reserved={"a:1": {"usd": Decimal(1)}})
    assert draft.snapshot().without_content().budget == Budget(spent={"usd": Decimal("0.02")})
    draft.budget = Budget({"usd": Decimal(9)})
    assert draft.freeze().without_content().budget is None


def test_a_state_has_the_times_of_its_first_and_of_its_newest_entry() -> None:
    """By their writers' clocks; a skipped entry changes no time."""
    state = fold(new_state(), 5, claim(1)._replace(ts=-7))
    assert (state.started_us, state.updated_us) == (-7, -7)
    state = fold(state, 6, own(9)._replace(ts=2**63 - 1))
    assert (state.started_us, state.updated_us) == (-7, 2**63 - 1)
    assert fold(state, 6, own(1)._replace(ts=3)) == state
    assert State.from_bytes(state.to_bytes()) == state


@pytest.mark.parametrize(
    ("state", "entry", "outcome"),
    [
        (FINISHED, external(b.Signal("late"), 9), Verdict.REFUSED),
        (folded(external(b.Submitted("a"), 7)), external(b.Submitted("b"), 8), Verdict.REFUSED),
        (folded(external(b.Signal("go"), 7)), external(b.Signal("go"), 7), Verdict.DUPLICATE),
        (OWNED, own(1), Verdict.DUPLICATE),
        (OWNED, claim(9, 0), Verdict.CLAIM_LOST),
        (OWNED, own(2, claim_id=9), Verdict.FORGED),
        (RELEASED, own(9), Verdict.STALE),
        (GAPPED, own(9), Verdict.ABANDONED),
    ],
)
def test_an_entry_that_counts_for_nothing_changes_no_time(state: State, entry: Entry, outcome: Verdict) -> None:
    """It may be a copy of something old: a new group of workers reads the inbox from its beginning."""
    assert verdict(state, entry) is outcome
    assert fold(state, state.offset + 1, entry._replace(ts=5)).updated_us == state.updated_us


def test_content_that_does_not_fit_beside_the_result_is_dropped() -> None:
    """A state has a limit, and the result must stay."""
    limits, state = Limits(state_bytes=100), OWNED
    content = b.ContextUpdated("a", f'"{"x" * 60}"')
    for offset, body in enumerate((content, b.Finished(f'"{"y" * 60}"'))):
        state = fold(state, 90 + offset, own(state.seq + 1, body), limits)
    assert (state.finished, state.content_dropped, state.result) == (True, True, "y" * 60)


def test_entries_of_the_owner_after_its_finish_are_stale() -> None:
    """The epoch ended with the process."""
    for body in (b.ContextUpdated("a", "1"), b.Rewound(1, new_state().content_json()), b.Finished("2")):
        assert verdict(FINISHED, own(4, body)) is Verdict.STALE
        assert folded(own(4, body), start=FINISHED).hash == FINISHED.hash


def test_a_rewind_restores_only_the_content() -> None:
    """O7: epoch, owner, seq, mailbox and ids stay, and the lineage records the rewind."""
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
    """Return entries of owners, zombies, clients and a confused operator: most fit, many do not."""
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
    """The admission table as an independent implementation: plain values, no sharing, no optimisation."""

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
                self.mailbox = []


@given(histories())
@settings(max_examples=500)
def test_the_fold_agrees_with_the_reference_implementation(history: list[Entry]) -> None:
    """After every entry of a random history, owner, counted seqs and visible content are equal."""
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
def test_batching_makes_no_difference(history: list[Entry], cuts: Sequence[int]) -> None:
    """Any batching, with or without encoding, from any earlier state, gives an equal state."""
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
def test_reading_entries_twice_changes_nothing(history: list[Entry], again: int) -> None:
    """The skip rule: a reader that starts from an earlier offset ends with the same state."""
    state = folded(*history)
    for offset, entry in list(enumerate(history))[again:]:
        state = fold(state, offset, entry)
    assert state == folded(*history)


@given(histories(), histories(8))
@settings(max_examples=150)
def test_an_old_state_is_never_changed(history: list[Entry], other: list[Entry]) -> None:
    """The fold is pure: two futures of one state share nothing that changes."""
    base = folded(*history)
    before = base.to_bytes()
    left, right = folded(*other, start=base), folded(*reversed(other), start=base)
    assert base.to_bytes() == before
    assert left == folded(*other, start=State.from_bytes(before))
    assert right == folded(*reversed(other), start=State.from_bytes(before))


def test_two_futures_of_one_context_do_not_mix() -> None:
    """Neither changes the other or the state before them."""
    state = folded(claim(1), own(1, b.ContextUpdated("a", "1")))
    left = folded(own(2, b.ContextUpdated("a", "2")), start=state)
    right = folded(own(2, b.ContextDeleted("a")), start=state)
    assert (left.context, right.context, state.context) == ({"a": 2}, {}, {"a": 1})


def test_two_futures_of_one_conversation_do_not_mix() -> None:
    """Both append to the same conversation in turns, and each has its own."""
    left = right = folded(own(3, b.MessageSaid("user", "hi")), start=OWNED)
    for seq in range(4, 8):
        left = folded(own(seq, b.MessageSaid("assistant", f"left {seq}")), start=left)
        right = folded(own(seq, b.MessageSaid("assistant", f"right {seq}")), start=right)
    assert [message.text for message in left.conversation] == ["hi", *(f"left {seq}" for seq in range(4, 8))]
    assert [message.text for message in right.conversation] == ["hi", *(f"right {seq}" for seq in range(4, 8))]


@given(st.lists(any_entry(), max_size=5), st.booleans())
def test_no_decoded_entry_makes_the_fold_raise(entries: list[Entry], owned: bool) -> None:
    """For any fields, the state can be written and read afterwards."""
    state = folded(claim(1)) if owned else new_state()
    for number, entry in enumerate(entries):
        if owned:
            entry = entry._replace(epoch=1, claim_id=an_id(1), seq=state.seq + 1 if number % 3 else entry.seq)
        state = fold(state, state.offset + 1, entry)
        assert State.from_bytes(state.to_bytes()) == state


@given(st.lists(any_entry(), min_size=1, max_size=4))
def test_a_body_that_does_not_fit_changes_nothing(entries: list[Entry]) -> None:
    """try_apply returns None after applying it, or the reason with an unchanged draft."""
    draft = OWNED.thaw()
    for entry in entries:
        if entry.body.EXTERNAL:
            continue
        before = draft.snapshot()
        if try_apply(draft, draft.seq + 1, entry.body, Limits(state_bytes=200)) is not None:
            assert draft.snapshot() == before
        else:
            assert draft.seq == before.seq + 1


def test_ownership_is_never_the_last_kind() -> None:
    """last_kind shows what the process did; claims and releases are bookkeeping."""
    assert new_state().last_kind is None
    assert folded(claim(1)).last_kind is None
    assert RELEASED.last_kind == "context_updated"


def test_first_offset_is_that_of_the_first_entry() -> None:
    """The verdict of that entry does not matter."""
    assert fold(new_state(), 17, own(5)).first_offset == 17
    assert fold(fold(new_state(), 17, own(5)), 20, claim(1)).first_offset == 17


@pytest.mark.parametrize("kind", [kind for kind in b.BODIES if not kind.EXTERNAL], ids=lambda kind: kind.KIND)
def test_every_owners_body_has_a_rule(kind: type[b.Body]) -> None:
    """A body without a rule fails here, not in a reader."""
    assert verdict(OWNED, own(3, kind())) in (Verdict.APPLIED, Verdict.MISFIT)
