"""Admission: each row of the admission table, and the present owner that heals a gap."""

from __future__ import annotations

import pytest

from entry_examples import an_id, claim, external, own
from folding import FINISHED, GAPPED, MISFITTED, OWNED, RELEASED, SIGNAL, counted, folded, verdict
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import Verdict, advance, advance_owner_entry, fold
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.state.state_parts import Degraded
from seekpoint.schemas.wire.codec import Codec, encode


def test_an_entry_at_or_below_the_offset_is_skipped() -> None:
    """It was applied before: neither the state nor a counter changes."""
    for offset in (OWNED.offset, OWNED.offset - 1, 0, -1):
        assert fold(OWNED, offset, own(3)) == OWNED
        assert advance(OWNED.thaw(), offset, own(3)) is Verdict.SKIPPED


def test_offsets_may_have_holes() -> None:
    """Transactions leave holes: only the seq shows whether an entry is missing."""
    assert fold(OWNED, 1_000_000, own(3)).seq == 3


def test_an_owner_of_a_lower_epoch_is_stale() -> None:
    """An entry of a fenced zombie is ignored and counted, whatever its seq and claim."""
    state = folded(claim(2, 1), start=OWNED)
    for late in (own(3), own(1), own(9), own(3, claim_id=2), own(3, b.Finished())):
        assert verdict(state, late) is Verdict.STALE
        after = folded(late, start=state)
        assert after.hash == state.hash
        assert counted(state, after) == {"stale_entries": 1}


def test_an_owner_of_a_released_epoch_is_stale() -> None:
    """A release ends its epoch: later entries of the owner are those of a former owner."""
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
    """A higher epoch, another claim or an external body with a seq is counted and changes nothing else."""
    assert verdict(OWNED, entry) is Verdict.FORGED
    after = folded(entry, start=OWNED)
    assert after.hash == OWNED.hash
    assert counted(OWNED, after) == {"forged_entries": 1}


def test_an_owner_entry_before_any_claim_is_forged() -> None:
    """A new process has no owner."""
    for entry in (own(1, epoch=0), own(1, epoch=0)._replace(claim_id=None), own(1)):
        assert verdict(new_state(), entry) is Verdict.FORGED


def test_the_next_seq_is_applied() -> None:
    """seq = state.seq + 1: the body is applied and becomes the last kind."""
    after = folded(own(3, b.ContextUpdated("a", "[1]")), start=OWNED)
    assert (after.seq, after.context["a"], after.last_kind) == (3, [1], "context_updated")
    assert counted(OWNED, after) == {}


def test_an_illegal_transition_counts_its_seq_and_degrades() -> None:
    """The body is not applied, the state has the reason, and the owner continues."""
    assert verdict(OWNED, own(3, b.LifecycleChanged("stopping"))) is Verdict.MISFIT
    assert (MISFITTED.seq, MISFITTED.lifecycle) == (3, "created")
    assert MISFITTED.degraded == Degraded("illegal_transition", 3, 3, "created does not lead to stopping")
    after = folded(own(4, b.LifecycleChanged("starting")), start=MISFITTED)
    assert (after.seq, after.lifecycle, after.degraded) == (4, "starting", MISFITTED.degraded)


def test_a_degraded_process_keeps_the_first_misfit() -> None:
    """A person needs to see the first cause."""
    after = folded(own(4, b.LifecycleChanged("nonsense")), start=MISFITTED)
    assert after.degraded == MISFITTED.degraded
    assert after.seq == 4


def test_a_seq_that_was_applied_is_a_duplicate() -> None:
    """It is dropped and counted, also with another body."""
    for seq in (2, 1, 0, -1):
        entry = own(seq, b.ContextCleared())
        assert verdict(OWNED, entry) is Verdict.DUPLICATE
        assert folded(entry, start=OWNED).hash == OWNED.hash
        assert counted(OWNED, folded(entry, start=OWNED)) == {"duplicate_entries": 1}


def test_a_gap_degrades_with_its_facts() -> None:
    """The state has the expected and the found seq; the entry after the gap is not applied."""
    assert verdict(OWNED, own(4)) is Verdict.GAP
    assert GAPPED.degraded == Degraded("gap", 3, 4)
    assert (GAPPED.seq, GAPPED.context, GAPPED.abandoned_entries) == (2, OWNED.context, 1)


def test_all_entries_of_the_owner_after_a_gap_are_abandoned() -> None:
    """A late missing entry too: the order in the log decides. A duplicate stays a duplicate."""
    for entry in (own(5), own(3), own(9, b.Released()), own(3, b.Finished())):
        assert verdict(GAPPED, entry) is Verdict.ABANDONED
        assert folded(entry, start=GAPPED).hash == GAPPED.hash
    assert folded(own(5), own(3), start=GAPPED).abandoned_entries == 3
    assert verdict(GAPPED, own(2)) is Verdict.DUPLICATE


def test_a_claim_of_the_present_epoch_wins() -> None:
    """The epoch grows by one, the claim's id is the owner, and the seq continues."""
    assert verdict(OWNED, claim(2, 1)) is Verdict.CLAIM_WON
    after = folded(claim(2, 1), own(3, epoch=2, claim_id=2), start=OWNED)
    assert (after.epoch, after.owner, after.owner_node, after.owner_boot) == (2, an_id(2), "node", "boot")
    assert after.seq == 3


def test_a_claim_of_another_epoch_is_lost() -> None:
    """It is counted and changes nothing else."""
    for expected in (0, 2, -1):
        assert verdict(OWNED, claim(2, expected)) is Verdict.CLAIM_LOST
        after = folded(claim(2, expected), start=OWNED)
        assert after.hash == OWNED.hash
        assert counted(OWNED, after) == {"lost_claims": 1}
        assert verdict(after, own(3)) is Verdict.APPLIED


def test_a_claim_of_a_released_process_wins() -> None:
    """The epoch grows by one."""
    after = folded(claim(2, 1), start=RELEASED)
    assert (after.epoch, after.owner, after.seq) == (2, an_id(2), 3)


@pytest.mark.parametrize("state", [GAPPED, MISFITTED], ids=["gap", "misfit"])
def test_a_degraded_process_refuses_a_plain_claim(state: State) -> None:
    """Only a person decides to accept the degradation."""
    assert verdict(state, claim(2, 1)) is Verdict.CLAIM_LOST
    assert folded(claim(2, 1), start=state).hash == state.hash


@pytest.mark.parametrize("state", [GAPPED, MISFITTED], ids=["gap", "misfit"])
def test_a_claim_that_accepts_the_degradation_wins(state: State) -> None:
    """With accept_degraded the process is no longer degraded and continues from its state."""
    after = folded(claim(2, 1, accept_degraded=True), start=state)
    assert (after.epoch, after.owner, after.degraded) == (2, an_id(2), None)
    assert verdict(after, own(state.seq + 1, epoch=2, claim_id=2)) is Verdict.APPLIED


def test_a_claim_that_accepts_the_degradation_needs_the_present_epoch() -> None:
    """A late claim does not win."""
    assert verdict(GAPPED, claim(2, 0, accept_degraded=True)) is Verdict.CLAIM_LOST


@pytest.mark.parametrize("accept", [False, True])
def test_a_finished_process_refuses_every_claim(accept: bool) -> None:
    """O8: whatever the claim has."""
    late = claim(2, 1, accept_degraded=accept, old_claim_id=an_id(1), abandon_from_seq=1)
    assert verdict(FINISHED, late) is Verdict.CLAIM_LOST
    assert folded(late, start=FINISHED).hash == FINISHED.hash


# --- O5: the owner heals its own gap ----------------------------------------------------------------------------------
def healing(abandon_from_seq: int | None, old_claim: int = 1, expected_epoch: int = 1) -> Entry:
    """The claim of an owner that was uncertain."""
    old = {"old_claim_id": an_id(old_claim), "abandon_from_seq": abandon_from_seq}
    return claim(2, expected_epoch, **old)


@pytest.mark.parametrize("abandon_from_seq", [3, 2, 1])
def test_the_present_owner_heals_a_gap_above_its_acknowledged_entries(abandon_from_seq: int) -> None:
    """No acknowledged entry is missing: no person is needed, and the seq continues."""
    after = folded(healing(abandon_from_seq), start=GAPPED)
    assert (after.epoch, after.owner, after.degraded) == (2, an_id(2), None)
    assert verdict(after, own(3, epoch=2, claim_id=2)) is Verdict.APPLIED
    assert verdict(after, own(3)) is Verdict.STALE


@pytest.mark.parametrize(
    "late",
    [healing(4), healing(None), healing(3, old_claim=9), healing(3, expected_epoch=0)],
    ids=["acknowledged entries are lost", "names no seq", "a former owner", "another epoch"],
)
def test_only_the_present_owner_heals_a_gap_without_loss(late: Entry) -> None:
    """abandon_from_seq counts only from the present owner, and only if no acknowledged entry is missing."""
    assert verdict(GAPPED, late) is Verdict.CLAIM_LOST
    assert folded(late, start=GAPPED).hash == GAPPED.hash


def test_a_healing_claim_without_a_gap_is_an_ordinary_claim() -> None:
    """All entries arrived, or only the last ones are missing."""
    after = folded(healing(3), start=OWNED)
    assert (after.epoch, after.owner) == (2, an_id(2))


def test_healing_a_gap_does_not_heal_a_misfit() -> None:
    """A misfit before, during or after the gap stays for a person."""
    assert folded(healing(4), start=MISFITTED).degraded == MISFITTED.degraded
    gapped = folded(own(5), start=MISFITTED)
    assert gapped.degraded == Degraded("gap", 4, 5, earlier=MISFITTED.degraded)
    assert folded(healing(4), start=gapped).degraded == MISFITTED.degraded
    assert folded(claim(2, 1, accept_degraded=True), start=gapped).degraded is None


def test_a_released_process_cannot_have_a_gap() -> None:
    """After a release every entry of the owner is stale, and there is no present owner to heal a gap."""
    assert folded(own(9), start=RELEASED).degraded is None


@pytest.mark.parametrize("start", [OWNED, GAPPED, MISFITTED, RELEASED, FINISHED], ids=lambda state: str(state.degraded))
@pytest.mark.parametrize("seq", [-100, -1, 0, 1, 2, 3, 4, 5, 6, 7, 63, 64, 100, 8_191, 8_192])
@pytest.mark.parametrize(
    "body",
    [b.MessageSaid("user", "x" * 100), b.LifecycleChanged("stopped"), b.GateOpened(key="g:1", position=1, name="ok")],
    ids=["fits", "may not", "keeps its time"],
)
def test_both_ways_of_folding_an_owners_entry_agree(start: State, seq: int, body: b.Body) -> None:
    """``advance_owner_entry`` is the quick way of readers of many entries; what it leaves is unchanged."""
    entry = own(seq, body)
    owned = Codec().decode_owner_entry(encode(entry), entry.process_id.encode())
    quick, usual = start.thaw(), start.thaw()
    expected = advance(usual, start.offset + 1, entry)
    found = None if owned is None else advance_owner_entry(quick, start.offset + 1, owned)
    if found is None:
        assert quick.freeze() == start
        return
    quick.updated_us = usual.updated_us  # the caller's
    assert found is expected
    assert quick.freeze() == usual.freeze()
