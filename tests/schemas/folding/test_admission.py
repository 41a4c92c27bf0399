"""Who may say what: each row of the admission table, and the owner that heals its own gap."""

from __future__ import annotations

import pytest

from entry_examples import an_id, claim, external, own
from folding import FINISHED, GAPPED, MISFITTED, OWNED, RELEASED, SIGNAL, counted, folded, verdict
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.state.state_parts import Degraded


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
