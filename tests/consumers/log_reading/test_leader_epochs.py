"""If a log is truncated and grows again, each stored landmark has another leader epoch there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from executors import Inline
from owners import Owner
from projection_bench import save_now, write_saves
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.checkpoint_writer import Positions, Save
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.log_reading.leader_epochs import LeaderEpochs, is_intact, lost_landmarks
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.recovery.loss_acceptance import accept_partition_loss
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.errors import JournalGap, JournalMismatch, LogTruncated, TierUnavailable
from seekpoint.schemas.log.log_ports import Landmark
from seekpoint.schemas.log.memory_log import MemoryLog

KEY = b"case-17"


class Kept:
    """One process in a log of one partition, with its view, its checkpoints and a projector."""

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.view = MemoryView(1)
        self.checkpoints = MemoryCheckpoints(1)
        self.owner = Owner(self.log.append, 1, "case-17")
        self.recoverer = Recoverer(self.log, view=self.view, checkpoints=self.checkpoints)
        self.deleted: list[int] = []

    # what a CheckpointWriter and a Deleter do
    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        return write_saves(self.checkpoints, saves)

    def settle(self) -> None:
        """Do nothing: no transaction is ever open."""

    def delete_below(self, partition: int, offset: int) -> None:
        self.deleted.append(offset)

    # what happens
    def projector(self, log: MemoryLog | None = None) -> PartitionProjection:
        source = ProjectionSource(
            log=log or self.log,
            topic_id=self.log.topic_id,
            view=self.view,
            checkpoints=self.checkpoints,
            writer=self,
            writes=Inline(),
            on_poison=lambda record, error: None,
        )
        return PartitionProjection(0, source)

    def ready(self) -> PartitionProjection:
        made = self.projector()
        assert made.prepare() or made.prepare()
        return made

    def project(self, projector: PartitionProjection) -> bool:
        start, stop = projector.position, self.log.watermarks(0).high
        records = [record for batch in self.log.read(0, start, stop) for record in batch.records]
        return projector.project(records, stop, self.log.leader_epoch_at(0, stop - 1)) and projector.flush()

    def save(self, projector: PartitionProjection) -> None:
        save_now(projector, self)

    def written(self) -> tuple[list[Landmark], list[Landmark]]:
        """Return the landmarks of all checkpoints and of all floors."""
        kept: list[Landmark] = []
        floors: list[Landmark] = []
        for _, key, value in self.checkpoints.records(0, 0, self.checkpoints.end(0)):
            if key == FLOOR_KEY:
                floors.append(Floor.from_bytes(value or b"").landmark)
            else:
                kept.append(Checkpoint.from_bytes(value or b"").landmark)
        return kept, floors

    def cut(self, offset: int, entries: int) -> None:
        """Elect a leader without the records from ``offset`` on, which takes ``entries`` other records of the owner."""
        self.log.elect(0, offset)
        self.owner.seq = offset - 1
        for number in range(entries):
            self.owner.update("rewritten", str(number))

    def accept(self) -> None:
        """Check that a projector refuses the partition, and accept the loss."""
        with pytest.raises(LogTruncated, match="--accept-loss"):
            self.ready()
        accept_partition_loss(self.recoverer, 0, actor="ann", reason="a disk is gone")

    def check(self) -> None:
        """Check that every tier gives the state of a scan."""
        expected = Recoverer(self.log).recover("case-17").state
        for tier in Tier:
            assert self.recoverer.recover("case-17", tier=tier).state == expected, tier


@pytest.fixture
def kept() -> Kept:
    """A log with a claim at 0 and updates at 1 to 3 by leader 0, and updates at 4 and 5 by leader 1."""
    made = Kept()
    made.owner.claim()
    for number in (1, 2, 3):
        made.owner.update("n", str(number))
    made.log.elect(0)
    for number in (4, 5):
        made.owner.update("n", str(number))
    return made


def test_a_projector_writes_the_epochs_of_the_log(kept: Kept) -> None:
    """A view stores the epoch of its newest entry, a checkpoint its own, a floor that of the entry right below it."""
    projector = kept.ready()
    assert kept.project(projector)
    kept.save(projector)
    meta = kept.view.meta(0)
    assert meta is not None
    assert (meta.applied, meta.leader_epoch) == (5, 1)
    assert kept.written() == ([Landmark(5, 1)], [Landmark(5, 1)])
    other = Owner(kept.log.append, 1, "other")
    other.claim()
    assert kept.project(projector)
    kept.log.elect(0)
    kept.owner.update("n", "6")
    assert kept.project(projector)
    kept.save(projector)
    assert kept.written()[0][1:] == [Landmark(6, 1), Landmark(7, 2)] or kept.written()[0][1:] == [
        Landmark(7, 2),
        Landmark(6, 1),
    ]
    kept.view.flush()
    rebuilt = kept.ready()
    meta = kept.view.meta(0)
    assert meta is not None
    assert (meta.applied, meta.leader_epoch) == (rebuilt.position - 1, 2)


def test_what_an_earlier_projector_applied_is_saved_with_its_epoch_too(kept: Kept) -> None:
    """The log is asked once: two records of one epoch prove all records between them."""
    for number in range(20):
        Owner(kept.log.append, 1, f"other-{number}").claim()
    assert kept.project(kept.ready())
    asked: list[int] = []
    original = kept.log.leader_epoch_at
    kept.log.leader_epoch_at = lambda partition, offset: asked.append(offset) or original(partition, offset)  # type: ignore[method-assign,func-returns-value]
    heir = kept.ready()
    kept.save(heir)
    landmarks, [floor] = kept.written()
    assert len(landmarks) == 21
    assert {epoch for _, epoch in landmarks} == {1}
    assert floor == Landmark(25, 1)
    assert len(asked) <= 3


def test_a_leader_that_moved_is_no_truncation(kept: Kept) -> None:
    """The log has the same records under later leaders: nothing is rebuilt, and nothing is refused."""
    projector = kept.ready()
    assert kept.project(projector)
    kept.save(projector)
    token = (kept.view.meta(0) or pytest.fail("no view")).token
    kept.log.elect(0)
    kept.owner.update("n", "6")
    assert kept.project(projector)
    heir = kept.ready()
    assert (heir.position, (kept.view.meta(0) or pytest.fail("no view")).token) == (7, token)
    assert Trim(kept.log, kept.checkpoints, kept).run(0).target == 6
    kept.check()


def test_a_view_on_records_that_are_no_more_is_rebuilt(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """The log is as long as before. Only the epoch differs."""
    assert kept.project(kept.ready())
    token = (kept.view.meta(0) or pytest.fail("no view")).token
    kept.cut(4, 4)
    kept.accept()
    with caplog.at_level(logging.WARNING):
        heir = kept.ready()
    assert heir.position == 0
    assert (kept.view.meta(0) or pytest.fail("no view")).token != token
    assert "lost" in caplog.text
    assert kept.project(heir)
    kept.save(heir)
    kept.check()


def test_a_batch_of_another_log_is_not_folded(kept: Kept) -> None:
    """The log is truncated while a projector works: the next batch does not follow the last one."""
    projector = kept.ready()
    assert kept.project(projector)
    kept.cut(4, 4)
    assert not kept.project(projector)
    assert not projector.is_ready
    kept.accept()
    assert projector.prepare() or projector.prepare()
    assert kept.project(projector)
    kept.save(projector)
    kept.check()


def test_a_floor_on_records_that_are_no_more_stops_the_partition(kept: Kept) -> None:
    """The checkpoints contain entries that the log lost. An operator has to decide."""
    projector = kept.ready()
    assert kept.project(projector)
    kept.save(projector)
    kept.cut(4, 4)
    kept.accept()
    found = kept.recoverer.recover("case-17")
    assert found.report.tier is Tier.SCAN
    assert sum("accepted" in note for note in found.report.notes) >= 1


@pytest.mark.parametrize("process_id", ["case-17", "new"])
@pytest.mark.parametrize("tier", [None, Tier.CHECKPOINT])
@pytest.mark.parametrize("has_pointer", [False, True])
def test_a_floor_above_the_cut_is_not_used_with_a_checkpoint_below_it(
    kept: Kept, process_id: str, tier: Tier | None, has_pointer: bool
) -> None:
    """A recovery would skip what was written below the floor since. So it would without a checkpoint."""
    projector = kept.ready()
    assert kept.project(projector)
    kept.save(projector)
    for _ in range(3):
        kept.log.append(0, b"somebody", b"else")
    assert kept.project(projector)
    kept.save(projector)
    if not has_pointer:
        kept.view.flush()
    kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    kept.log.elect(0, 6)
    new = Owner(kept.log.append, 1, "new")
    new.claim()
    kept.owner.update("n", "6")
    for number in range(4):
        new.update("n", str(number))
    expected = Recoverer(kept.log).recover(process_id).state
    with pytest.raises(LogTruncated):
        kept.recoverer.recover(process_id, tier=tier)
    kept.accept()
    try:
        found = kept.recoverer.recover(process_id, tier=tier)
    except TierUnavailable as exc:
        assert "accepted" in str(exc) or "no floor" in str(exc)  # noqa: PT017  # either outcome is right, and each has a word to it
    else:
        assert found.state == expected


def save_above_the_floor(kept: Kept) -> None:
    """Write a checkpoint of entry 5 while another process holds the floor at 2."""
    kept.cut(2, 0)
    kept.owner.seq = 1
    waiting = Owner(kept.log.append, 1, "waiting")
    waiting.claim()
    for number in (2, 3, 4):
        kept.owner.update("n", str(number))
    projector = kept.ready()
    assert kept.project(projector)
    projector.request({KEY: 0})
    save_now(projector, kept, force=False)
    assert kept.written() == ([Landmark(5, 2)], [Landmark(1, 0)])


def test_a_checkpoint_on_lost_records_is_recomputed(kept: Kept) -> None:
    """The floor is intact and the log complete, so the process is recomputed from the log."""
    save_above_the_floor(kept)
    kept.log.elect(0, 3)
    kept.owner.seq = 1
    for number in range(4):
        kept.owner.update("rewritten", str(number))
    kept.accept()
    heir = kept.ready()
    assert kept.project(heir)
    kept.save(heir)
    kept.check()


def test_a_checkpoint_beyond_the_end_of_the_log_is_recomputed(kept: Kept) -> None:
    """With its state the next entries would be skipped."""
    save_above_the_floor(kept)
    kept.log.elect(0, 3)
    kept.accept()
    heir = kept.ready()
    kept.owner.seq = 1
    for number in range(4):
        kept.owner.update("rewritten", str(number))
        assert kept.project(heir)
    kept.save(heir)
    kept.check()


def test_a_checkpoint_of_a_cut_and_trimmed_log_is_never_a_guess(kept: Kept) -> None:
    """The entries that it contained exist nowhere else."""
    save_above_the_floor(kept)
    kept.log.trim(0, 2)
    kept.log.elect(0, 3)
    kept.owner.seq = 1
    for number in range(4):
        kept.owner.update("rewritten", str(number))
    kept.view.flush()
    kept.accept()
    kept.ready()
    with pytest.raises(JournalGap):
        kept.recoverer.recover("case-17")


def end_gone(kept: Kept) -> None:
    projector = kept.ready()
    assert kept.project(projector)
    kept.save(projector)
    kept.cut(4, 4)


def entry_above_the_floor_gone(kept: Kept) -> None:
    save_above_the_floor(kept)
    kept.log.elect(0, 3)
    for _ in range(4):
        kept.log.append(0, b"somebody", b"else")


@pytest.mark.parametrize("gone", [end_gone, entry_above_the_floor_gone], ids=lambda gone: gone.__name__)
def test_nothing_is_trimmed_where_the_log_is_another(kept: Kept, gone: Callable[[Kept], None]) -> None:
    """The entries to be deleted are not those in the checkpoints."""
    gone(kept)
    with pytest.raises(JournalMismatch, match="truncated"):
        Trim(kept.log, kept.checkpoints, kept).run(0)
    assert kept.deleted == []


def test_two_records_of_one_epoch_prove_all_between_them(kept: Kept) -> None:
    """The log is asked about other offsets, once each. A negative offset has no epoch."""
    epochs = LeaderEpochs(kept.log, 0)
    epochs.record(5, 1)
    epochs.record(3, 0)
    kept.log.leader_epoch_at = lambda partition, offset: {0: 0, 4: 1}[offset]  # type: ignore[method-assign]
    assert [epochs.epoch_at(offset) for offset in (0, 1, 2, 3, 4, 5, -1)] == [0, 0, 0, 0, 1, 1, -1]
    assert epochs.newest == Landmark(5, 1)


def test_a_record_that_was_replaced_since_keeps_the_epoch_it_had(kept: Kept) -> None:
    """Its epoch cannot be above that of the next record, so the later comparison fails as it must."""
    epochs = LeaderEpochs(kept.log, 0)
    epochs.record(5, 1)
    kept.cut(2, 4)
    assert epochs.epoch_at(3) == 1
    assert not is_intact(kept.log, 0, Landmark(3, 1))


def test_a_record_that_was_trimmed_or_is_not_known_is_accepted(kept: Kept) -> None:
    """A record beyond the end of the log is not accepted."""
    kept.log.trim(0, 2)
    assert [is_intact(kept.log, 0, Landmark(*one)) for one in ((1, 9), (2, 0), (2, 9), (2, -1), (5, 1), (6, 1))] == [
        *(True, True, False, True, True, False)
    ]
    assert lost_landmarks(
        kept.log, 0, [Landmark(1, 9), Landmark(3, 0), Landmark(3, 4), Landmark(9, -1), Landmark(2, -1)]
    ) == {
        Landmark(3, 4),
        Landmark(9, -1),
    }
