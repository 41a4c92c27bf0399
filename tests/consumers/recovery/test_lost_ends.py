"""A log that lost its end stops every use of the partition until an operator accepts the loss (R5, I22)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from itertools import product

import pytest

from owners import Owner
from projection_bench import save_now
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.log_reading.lost_ends import accepted_losses
from seekpoint.consumers.recovery.absence_proof import prove_absence
from seekpoint.consumers.recovery.loss_acceptance import accept_partition_loss, lost_partitions
from seekpoint.consumers.recovery.open_processes import recover_open
from seekpoint.consumers.recovery.process_listing import list_processes
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.bodies import AgentStarted
from seekpoint.schemas.errors import JournalGap, LogTruncated, Refused, UnknownProcess
from stored_journal import StoredJournal

KEY, OTHER = b"case-17", b"other"


def stored() -> StoredJournal:
    """Two processes of eight entries, projected and saved. The other one has the newest checkpoint."""
    made = StoredJournal(KEY, OTHER)
    for owner in made.owners.values():
        owner.claim()
        owner.own(AgentStarted("agent", "", "", "1"))
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    for number in range(2):
        for owner in made.owners.values():
            owner.update("n", str(number))
    assert made.project(projector)
    save_now(projector, made)
    return made


def no_checkpoints(made: StoredJournal) -> None:
    """Only the view stands on the lost entries."""
    made.checkpoints.recreate()


def no_view(made: StoredJournal) -> None:
    """Only checkpoints and floor stand on them."""
    made.view.flush()


def only_the_floor(made: StoredJournal) -> None:
    made.view.flush()
    floor = made.newest(FLOOR_KEY)
    made.checkpoints.recreate()
    made.checkpoints.write(0, [(FLOOR_KEY, floor)])


def only_the_checkpoint_of_another_process(made: StoredJournal) -> None:
    made.view.flush()
    records = [*made.checkpoints.records(0, 0, made.checkpoints.end(0))]
    other = made.newest(OTHER)
    made.checkpoints.recreate()
    made.checkpoints.write(0, [(key, value) for _, key, value in records[:3]])
    made.checkpoints.write(0, [(OTHER, other)])


KEPT = {one.__name__: one for one in (
    no_checkpoints, no_view, only_the_floor, only_the_checkpoint_of_another_process, stored,
)}  # fmt: skip
"""What is left of view and checkpoints; ``stored``: all of it."""


def lose(made: StoredJournal, *, is_hidden: bool, is_trimmed: bool = False) -> None:
    """Elect a leader without the last three entries. ``is_hidden``: it takes more than that since."""
    if is_trimmed:
        made.log.trim(0, 4)
    made.log.elect(0, 5)
    made.owners[KEY].seq, made.owners[OTHER].seq = 2, 1
    if is_hidden:
        new = Owner(made.log.append, 1, "new")
        new.claim()
        for number in range(4):
            new.update("n", str(number))


def lost(kept: str, *, is_hidden: bool, is_trimmed: bool = False) -> StoredJournal:
    made = stored()
    if kept != "stored":
        KEPT[kept](made)  # type: ignore[call-arg]
    lose(made, is_hidden=is_hidden, is_trimmed=is_trimmed)
    return made


USES: dict[str, Callable[[Recoverer], object]] = {
    "recover": lambda one: one.recover("case-17"),
    "recover another": lambda one: one.recover("other"),
    "recover an unknown one": lambda one: one.recover("unknown", missing_ok=True),
    "recover many": lambda one: one.recover_many(["case-17", "unknown"]),
    "recover all": lambda one: one.recover_partition(0),
    "a worker's partition": lambda one: recover_open(one, 0),
    "list": lambda one: [*list_processes(one, "", "", None, lambda why: None)],
    "proof of absence": lambda one: prove_absence(one, 0, one.log.watermarks(0).high),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("kept", "is_hidden"), [*product(KEPT, (False, True))])
def test_a_lost_end_stops_every_use_of_the_partition(kept: str, is_hidden: bool, use: str) -> None:
    """Whatever is left of it, on a fresh node, also if another process has written over the lost entries."""
    made = lost(kept, is_hidden=is_hidden)
    if (kept, use) == ("no_checkpoints", "proof of absence"):
        pytest.skip("it uses nothing that stands on the lost entries")
    recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
    for _ in range(2):
        with pytest.raises(LogTruncated, match="--accept-loss"):
            USES[use](recoverer)


@pytest.mark.parametrize(("kept", "is_hidden"), [*product(KEPT, (False, True))])
def test_a_projector_does_not_build_on_a_lost_end(kept: str, is_hidden: bool) -> None:
    """It neither rebuilds the view nor writes checkpoints again."""
    made = lost(kept, is_hidden=is_hidden)
    meta = made.view.meta(0)
    with pytest.raises(LogTruncated):
        made.projector()
    assert made.view.meta(0) == meta


@pytest.mark.parametrize(("kept", "is_hidden", "is_trimmed"), [*product(KEPT, (False, True), (False, True))])
def test_an_accepted_loss_derives_all_tiers_from_the_log(kept: str, is_hidden: bool, is_trimmed: bool) -> None:
    """The journal keeps who decided that, and why. Of a trimmed log only what it still holds is left."""
    made = lost(kept, is_hidden=is_hidden, is_trimmed=is_trimmed and kept != "no_checkpoints")
    low = made.log.watermarks(0).low
    recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
    assert [one.partition for one in lost_partitions(recoverer)] == [0]
    accept_partition_loss(recoverer, 0, actor="ann", reason="two disks are gone")
    assert [(one.actor, one.reason) for one in accepted_losses(made.log)] == [("ann", "two disks are gone")]
    assert [*lost_partitions(recoverer)] == []
    for one in (recoverer, Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)):
        with suppress(JournalGap) if low else nullcontext():
            check(made, one, low)
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    check(made, Recoverer(made.log, view=made.view, checkpoints=made.checkpoints), low)


def check(made: StoredJournal, recoverer: Recoverer, low: int) -> None:
    """Compare what ``recoverer`` finds with a fold of the log, or expect a gap where that was trimmed."""
    for process_id in ("case-17", "other", "new"):
        try:
            found = recoverer.recover(process_id, missing_ok=True).state
        except JournalGap:
            assert low
        else:
            if not low:
                assert found == Recoverer(made.log).recover(process_id, missing_ok=True).state
            assert found.offset < made.log.watermarks(0).high
    everything = recoverer.recover_partition(0)
    if not low:
        assert {name: one.state for name, one in everything.items()} == {
            name: one.state for name, one in Recoverer(made.log).recover_partition(0).items()
        }
    with pytest.raises(UnknownProcess):
        recoverer.recover("unknown")


def test_a_second_loss_has_to_be_accepted_too() -> None:
    """What was accepted once is no answer for entries that were written since."""
    made = lost("stored", is_hidden=True)
    recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
    accept_partition_loss(recoverer, 0, actor="ann", reason="gone")
    with pytest.raises(Refused):
        accept_partition_loss(recoverer, 0, actor="ann", reason="gone")
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    made.log.elect(0, 7)
    for view in (made.view, None):
        with pytest.raises(LogTruncated):
            Recoverer(made.log, view=view, checkpoints=made.checkpoints).recover("case-17")
    with pytest.raises(LogTruncated):
        made.projector()


def test_a_later_loss_of_the_same_offsets_is_another_one() -> None:
    """The log was shorter than what was given up, and lost its end again."""
    made = lost("stored", is_hidden=False)
    accept_partition_loss(
        Recoverer(made.log, view=made.view, checkpoints=made.checkpoints), 0, actor="ann", reason="gone"
    )
    Owner(made.log.append, 1, "new").claim()
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    made.log.elect(0, 5)
    with pytest.raises(LogTruncated):
        Recoverer(made.log, view=made.view, checkpoints=made.checkpoints).recover("case-17")


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_node_that_read_before_the_loss_notices_a_lost_floor(is_accepted: bool) -> None:
    """No process has a checkpoint, so the floor alone says where a scan starts."""
    made = stored()
    only_the_floor(made)
    recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
    recoverer.recover_partition(0)
    lose(made, is_hidden=True)
    with pytest.raises(LogTruncated):
        recoverer.recover_partition(0)
    if is_accepted:
        accept_partition_loss(recoverer, 0, actor="ann", reason="gone")
        assert recoverer.recover_partition(0).keys() == {"case-17", "other", "new"}


def test_an_operator_may_look_at_what_the_log_holds() -> None:
    """A scan that is asked for uses nothing that is stored."""
    made = lost("stored", is_hidden=False)
    recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
    assert recoverer.recover("case-17", tier=Tier.SCAN).state.seq == 2


def test_a_new_leader_with_all_entries_is_no_loss() -> None:
    """Neither with new entries nor without."""
    made = stored()
    made.log.elect(0)
    for _ in range(2):
        for tier in Tier:
            recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
            assert recoverer.recover("case-17", tier=tier).state == Recoverer(made.log).recover("case-17").state
        assert [*lost_partitions(recoverer)] == []
        made.owners[OTHER].update("n", "9")
        made.log.elect(0)


@pytest.mark.parametrize("value", [b"", b"junk", b"{}", b'{"topic_id": 1}'])
def test_foreign_bytes_in_the_place_of_a_decision_accept_nothing(value: bytes) -> None:
    """They are no bare error either, and the loss can be accepted beside them."""
    made = lost("stored", is_hidden=True)
    made.log.table("schemas").put(b"\x00loss:0:1", value)
    recoverer = Recoverer(made.log, view=made.view, checkpoints=made.checkpoints)
    with pytest.raises(LogTruncated):
        recoverer.recover("case-17")
    accept_partition_loss(recoverer, 0, actor="ann", reason="gone")
    check(made, recoverer, 0)


@pytest.mark.parametrize("use", USES)
def test_a_lost_end_is_said_where_as_many_entries_were_written_since(use: str) -> None:
    """Then a view or checkpoint at the log's end has nothing behind it that would show another leader."""
    if use == "proof of absence":
        pytest.skip("it uses nothing that stands on the lost entries")
    made = stored()
    no_checkpoints(made)
    made.log.elect(0, 7)
    Owner(made.log.append, 1, "new").claim()
    with pytest.raises(LogTruncated):
        USES[use](Recoverer(made.log, view=made.view, checkpoints=made.checkpoints))
