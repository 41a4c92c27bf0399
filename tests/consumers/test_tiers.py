"""The tiers one by one: when each is taken, what makes it unusable, and that the report says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import pytest

from owners import Owner
from seekpoint.consumers import Recoverer, Tier
from seekpoint.consumers.bases import Bases
from seekpoint.consumers.checkpoint_index import CheckpointIndex
from seekpoint.consumers.checkpoints import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.memory_view import MemoryView
from seekpoint.consumers.points import Point
from seekpoint.consumers.view_store import Pointer
from seekpoint.schemas.bodies import ContextUpdated, LifecycleChanged
from seekpoint.schemas.errors import JournalGap, NewerFormat, TierUnavailable, UnknownProcess
from seekpoint.schemas.log import Batch, MemoryLog
from seekpoint.schemas.state import State

KEY = b"case-17"


class Kept:
    """A process with a view and checkpoints beside its log."""

    def __init__(self, log: MemoryLog, owner: Owner) -> None:
        self.log = log
        self.owner = owner
        self.partition = owner.partition
        self.view = MemoryView(4)
        self.checkpoints = MemoryCheckpoints(4)
        self.bases = Bases(log, self.view, self.checkpoints)
        self.bases.index = CheckpointIndex(self.checkpoints, wait_s=0.1)
        self.recoverer = Recoverer(log, view=self.view, checkpoints=self.checkpoints)
        self.recoverer.bases = self.bases

    def state(self) -> State:
        return Recoverer(self.log).recover("case-17").state

    def checkpoint(self, **changes: object) -> Checkpoint:
        state = self.state()
        epoch = self.log.leader_epoch_at(self.partition, state.offset)
        made = Checkpoint.of("case-17", self.partition, state, self.log.topic_id, epoch)
        return replace(made, **changes)  # type: ignore[arg-type]

    def save(self, checkpoint: Checkpoint | None = None, floor: int | None = None) -> int:
        """A checkpoint of now, and a floor (the end of the log)."""
        made = checkpoint or self.checkpoint()
        [position] = self.checkpoints.write(self.partition, [(KEY, made.to_bytes())])
        self.floor(self.log.watermarks(self.partition).high if floor is None else floor)
        return position

    def floor(self, offset: int) -> None:
        epoch = self.log.leader_epoch_at(self.partition, offset - 1)
        record = Floor(offset=offset, leader_epoch=epoch, topic_id=self.log.topic_id, since=0)
        self.checkpoints.write(self.partition, [(FLOOR_KEY, record.to_bytes())])

    def project(self, pointer: Pointer | None = None, topic_id: str | None = None) -> None:
        """A view of now."""
        token = self.view.install(self.partition, topic_id or self.log.topic_id)
        self.view.put(self.partition, token, {KEY: (self.state(), pointer or Pointer(999, 0))})
        applied = self.log.watermarks(self.partition).high - 1
        self.view.ready(self.partition, token, applied, self.log.leader_epoch_at(self.partition, applied))

    def foreign(self, count: int) -> None:
        for _ in range(count):
            self.log.append(self.partition, b"somebody", b"else")


@pytest.fixture
def kept(log: MemoryLog, owner: Owner) -> Kept:
    return Kept(log, owner)


def begin(kept: Kept, updates: int = 3) -> None:
    kept.owner.claim()
    for number in range(1, updates + 1):
        kept.owner.update("k", str(number))


# --- the three recoveries ---------------------------------------------------------------------------------------------
def test_a_checkpoint_and_three_updates(kept: Kept) -> None:
    """check_count 8 and running, then 9, 10, 11: three entries applied."""
    kept.owner.claim()
    kept.owner.own(LifecycleChanged("starting"))
    kept.owner.own(LifecycleChanged("running"))
    kept.owner.update("check_count", "8")
    kept.save()
    for count in ("9", "10", "11"):
        kept.owner.update("check_count", count)
    found = kept.recoverer.recover("case-17")
    assert found.state.context == {"check_count": 11}
    assert found.state.lifecycle == "running"
    assert (found.report.tier, found.report.entries_applied) == (Tier.CHECKPOINT, 3)


def test_three_entries_and_no_checkpoint(kept: Kept) -> None:
    """All three applied, by scan; claims are not counted."""
    begin(kept)
    found = kept.recoverer.recover("case-17")
    assert (found.report.tier, found.report.entries_applied, found.report.notes) == (Tier.SCAN, 3, ())


def test_nothing_at_all(kept: Kept) -> None:
    """{}, created, 0."""
    found = kept.recoverer.recover("case-17", missing_ok=True)
    assert (found.state.context, str(found.state.lifecycle), found.report.entries_applied) == ({}, "created", 0)


# --- each tier reads no more than it must -----------------------------------------------------------------------------
def test_a_view_that_is_up_to_date_reads_no_journal(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where the log ends is asked."""
    begin(kept)
    kept.project()

    def read(*_: object) -> object:
        raise AssertionError("the journal was read")

    expected = kept.state()
    monkeypatch.setattr(kept.log, "read", lambda partition, start, stop, keys: iter(()) if start >= stop else read())
    found = kept.recoverer.recover("case-17")
    assert found.state == expected
    assert (found.report.tier, found.report.seek_point, found.report.entries_scanned) == (Tier.VIEW, 4, 0)


def test_a_view_is_completed_from_the_tail(kept: Kept) -> None:
    """What it has not applied yet."""
    begin(kept)
    kept.project()
    kept.foreign(5)
    kept.owner.update("k", "4")
    report = kept.recoverer.recover("case-17").report
    assert (report.tier, report.entries_scanned, report.entries_applied, report.notes) == (Tier.VIEW, 6, 1, ())
    assert kept.recoverer.recover("case-17").state == kept.state()


def test_a_checkpoint_is_found_by_the_views_pointer(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """One point read; the partition is not read."""
    begin(kept)
    position = kept.save()
    kept.project(Pointer(position, 4))
    kept.owner.update("k", "4")
    expected = kept.state()
    monkeypatch.setattr(kept.checkpoints, "records", None)
    found = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    assert found.state == expected
    assert (found.report.seek_point, found.report.entries_scanned) == (4, 1)


def test_the_seek_point_is_the_floor_where_that_is_higher(kept: Kept) -> None:
    """What lies between an old checkpoint and the floor is not its process's."""
    begin(kept)
    kept.foreign(1_000)
    kept.save()
    kept.foreign(3)
    report = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT).report
    assert (report.seek_point, report.entries_scanned) == (1_004, 3)


def test_the_index_reads_on_from_where_it_was(kept: Kept) -> None:
    """Each head once."""
    begin(kept)
    kept.save()
    reads: list[int] = []
    plain = kept.checkpoints.records

    def counted(partition: int, start: int, stop: int) -> object:
        reads.append(stop - start)
        return plain(partition, start, stop)

    kept.checkpoints.records = counted  # type: ignore[method-assign,assignment]
    for number in range(4, 7):
        kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
        kept.owner.update("k", str(number))
        kept.save()
    assert reads == [2, 2, 2]


def test_the_index_is_bounded(kept: Kept) -> None:
    """The partition used longest ago is forgotten, and read again when it is needed."""
    index = CheckpointIndex(kept.checkpoints, heads_max=2)
    value = kept_bytes(kept)
    for partition in range(3):
        kept.checkpoints.write(partition, [(b"a", value), (b"b", value)])
    assert [index.find(partition, b"a").saved is not None for partition in (0, 1, 2, 0)] == [True] * 4
    assert len(index._known) == 1


def kept_bytes(kept: Kept) -> bytes:
    begin(kept)
    return kept.checkpoint().to_bytes()


# --- P7 ---------------------------------------------------------------------------------------------------------------
def test_a_pointer_is_used_with_its_own_floor_and_no_newer_one(kept: Kept) -> None:
    """The view kept an old pointer; the newer checkpoint's floor would pass over what came in between."""
    begin(kept)
    old = kept.save()
    kept.owner.update("k", "4")
    kept.project(Pointer(old, 4))
    kept.save()
    found = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    assert found.state.context == {"k": 4}
    assert found.report.seek_point == 4


def test_a_pointer_is_used_with_its_floor(kept: Kept) -> None:
    """What lies between the checkpoint and the floor of its transaction is not its process's: it is not read."""
    begin(kept)
    kept.foreign(20)
    position = kept.save()
    kept.project(Pointer(position, 24))
    kept.checkpoints.write(kept.partition, [(FLOOR_KEY, b"junk")])
    kept.owner.update("k", "4")
    report = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT).report
    assert (report.seek_point, report.entries_scanned) == (24, 1)


def test_a_damaged_checkpoint_is_not_replaced_by_an_older_one(kept: Kept) -> None:
    """The newest floor is not the older one's."""
    begin(kept)
    kept.save()
    kept.owner.update("k", "4")
    position = kept.save()
    kept.checkpoints.corrupt(kept.partition, position, b"junk")
    found = kept.recoverer.recover("case-17")
    assert (found.state.context, found.report.tier) == ({"k": 4}, Tier.SCAN)
    with pytest.raises(TierUnavailable, match="no checkpoint"):
        kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)


def test_a_pointer_that_was_compacted_away_is_not_the_next_record(kept: Kept) -> None:
    """The partition is read instead."""
    begin(kept)
    old = kept.save()
    kept.owner.update("k", "4")
    kept.save()
    kept.project(Pointer(old, 4))
    kept.checkpoints.compact(kept.partition)
    kept.owner.update("k", "5")
    found = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    assert (found.state.context, found.report.seek_point, found.report.notes) == ({"k": 5}, 5, ())


# --- the next tier, and said so ---------------------------------------------------------------------------------------
def damaged_hash(kept: Kept) -> None:
    kept.checkpoints.corrupt(kept.partition, kept.save())


def other_topic(kept: Kept) -> None:
    kept.save(kept.checkpoint(topic_id="another"))


def other_process(kept: Kept) -> None:
    kept.save(kept.checkpoint(process_id="case-18"))


def beyond_the_end(kept: Kept) -> None:
    kept.foreign(1)
    kept.save(floor=5)
    kept.log.elect(kept.partition, 4)


def another_leader_epoch(kept: Kept) -> None:
    kept.save()
    last = kept.owner.entry(ContextUpdated("k", "33"), 3)
    kept.log.elect(kept.partition, 3)
    kept.owner.put(last)
    kept.foreign(2)


def damaged_floor(kept: Kept) -> None:
    kept.save()
    kept.checkpoints.write(kept.partition, [(FLOOR_KEY, b"junk")])


def floor_of_another_topic(kept: Kept) -> None:
    kept.save()
    record = Floor(offset=4, leader_epoch=-1, topic_id="another", since=0)
    kept.checkpoints.write(kept.partition, [(FLOOR_KEY, record.to_bytes())])


def floor_beyond_the_end(kept: Kept) -> None:
    kept.floor(99)


CHECKPOINT_FAULTS: dict[Callable[[Kept], None], str] = {
    damaged_hash: "does not have its hash",
    other_topic: "another journal topic",
    other_process: "another process",
    beyond_the_end: "truncated log",
    another_leader_epoch: "truncated",
    damaged_floor: "no floor",
    floor_of_another_topic: "another journal topic",
    floor_beyond_the_end: "truncated log",
}


@pytest.mark.parametrize("fault", CHECKPOINT_FAULTS, ids=lambda fault: fault.__name__)
def test_a_checkpoint_that_may_not_be_used_is_the_next_tier(
    kept: Kept, fault: Callable[[Kept], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The report and the log say why; forced, it is a refusal with the reason."""
    begin(kept)
    fault(kept)
    with caplog.at_level(logging.WARNING, "seekpoint.consumers"):
        found = kept.recoverer.recover("case-17")
    assert found.state == kept.state()
    assert found.report.tier is Tier.SCAN
    assert any(CHECKPOINT_FAULTS[fault] in note for note in found.report.notes)
    assert CHECKPOINT_FAULTS[fault] in caplog.text
    with pytest.raises(TierUnavailable, match=CHECKPOINT_FAULTS[fault]):
        kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    assert kept.recoverer.recover_many(["case-17"])["case-17"].state == found.state


def redis_down(kept: Kept) -> None:
    kept.view.down()


def no_view(kept: Kept) -> None:
    kept.view.flush()


def rebuilding(kept: Kept) -> None:
    kept.view.install(kept.partition, kept.log.topic_id)


def view_of_another_topic(kept: Kept) -> None:
    kept.project(topic_id="another")


def view_beyond_the_end(kept: Kept) -> None:
    kept.foreign(1)
    kept.project()
    kept.log.elect(kept.partition, 4)


def view_on_a_truncated_log(kept: Kept) -> None:
    kept.foreign(1)
    kept.project()
    kept.log.elect(kept.partition, 4)
    kept.foreign(3)


def view_behind_the_logs_beginning(kept: Kept) -> None:
    kept.foreign(3)
    kept.floor(7)
    kept.log.trim(kept.partition, 7)


VIEW_FAULTS: dict[Callable[[Kept], None], str] = {
    redis_down: "down",
    no_view: "there is none",
    rebuilding: "being rebuilt",
    view_of_another_topic: "another journal topic",
    view_beyond_the_end: "truncated log",
    view_on_a_truncated_log: "truncated",
    view_behind_the_logs_beginning: "behind the log's beginning",
}


@pytest.mark.parametrize("fault", VIEW_FAULTS, ids=lambda fault: fault.__name__)
def test_a_view_that_may_not_be_used_is_the_next_tier(kept: Kept, fault: Callable[[Kept], None]) -> None:
    """The checkpoint; the report says why."""
    begin(kept)
    kept.save()
    kept.project()
    expected = kept.state()
    fault(kept)
    found = kept.recoverer.recover("case-17")
    assert (found.state, found.report.tier) == (expected, Tier.CHECKPOINT)
    assert any(VIEW_FAULTS[fault] in note for note in found.report.notes)
    with pytest.raises(TierUnavailable, match=VIEW_FAULTS[fault]):
        kept.recoverer.recover("case-17", tier=Tier.VIEW)
    assert kept.recoverer.recover_many(["case-17"])["case-17"].state == expected


def test_a_leader_that_moved_is_no_truncation(kept: Kept) -> None:
    """The records that the bases stand on are still the same."""
    begin(kept)
    kept.save()
    kept.project()
    kept.log.elect(kept.partition)
    kept.owner.update("k", "4")
    for tier in Tier:
        assert kept.recoverer.recover("case-17", tier=tier).state == kept.state()


def test_a_warning_is_not_repeated_for_each_recovery(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """Five thousand opens while Redis is down are one line."""
    begin(kept)
    kept.view.down()
    for _ in range(5):
        assert kept.recoverer.recover("case-17").report.notes
    assert len(caplog.records) == 1


def test_what_a_newer_seekpoint_wrote_is_never_passed_over(kept: Kept) -> None:
    """Neither its checkpoint nor its state; the neighbours go on."""
    begin(kept)
    newer = kept.checkpoint().to_bytes().replace(b'"format":1', b'"format":99', 1)
    kept.checkpoints.write(kept.partition, [(KEY, newer)])
    kept.floor(4)
    with pytest.raises(NewerFormat):
        kept.recoverer.recover("case-17")
    with pytest.raises(NewerFormat):
        kept.recoverer.recover_many(["case-17"])
    state = kept.checkpoint().state.replace(b'"fold_version":1', b'"fold_version":99')
    made = Checkpoint.from_bytes(kept.checkpoint().to_bytes().partition(b"\n")[0] + b"\n" + state)
    from hashlib import blake2b

    kept.save(replace(made, digest=blake2b(state, digest_size=16).hexdigest()))
    with pytest.raises(NewerFormat):
        kept.recoverer.recover("case-17")


# --- what is not there ------------------------------------------------------------------------------------------------
def test_an_unknown_process_is_proven_without_the_logs_beginning(kept: Kept) -> None:
    """Absent from the view and its tail; or from the checkpoints, and from the log from a floor inside it."""
    kept.foreign(6)
    kept.floor(5)
    kept.log.trim(kept.partition, 5)
    with pytest.raises(UnknownProcess):
        kept.recoverer.recover("case-17")
    token = kept.view.install(kept.partition, kept.log.topic_id)
    kept.view.ready(kept.partition, token, 5, -1)
    assert kept.recoverer.recover("case-17", missing_ok=True).report.tier is Tier.VIEW


@pytest.mark.parametrize("tier", [None, Tier.CHECKPOINT])
@pytest.mark.parametrize("is_bulk", [False, True])
def test_a_log_that_is_trimmed_meanwhile_is_no_gap(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tier: Tier | None, is_bulk: bool
) -> None:
    """A recovery took its floor; a newer one is published, and the log trimmed to it, before the tail was read."""
    begin(kept)
    kept.save()
    kept.owner.update("k", "4")
    read = kept.log.read

    def trimmed(partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        monkeypatch.undo()
        kept.save()
        kept.owner.update("k", "5")
        kept.log.trim(partition, stop)
        return read(partition, start, stop, keys)

    monkeypatch.setattr(kept.log, "read", trimmed)
    if is_bulk:
        found = kept.recoverer.recover_partition(kept.partition, ["case-17"], tier=tier)["case-17"]
    else:
        found = kept.recoverer.recover("case-17", tier=tier)
    assert found.state.context == {"k": 5}
    assert (found.report.tier, found.report.seek_point) == (Tier.CHECKPOINT, 5)


def test_a_floor_below_the_logs_beginning_proves_nothing(kept: Kept) -> None:
    """A gap with low and high, and why."""
    kept.foreign(6)
    kept.floor(4)
    kept.log.trim(kept.partition, 5)
    with pytest.raises(JournalGap, match="below the log's beginning") as caught:
        kept.recoverer.recover("case-17", missing_ok=True)
    assert (caught.value.low, caught.value.high) == (5, 6)


def test_an_open_transaction_is_waited_for_before_a_process_is_unknown(kept: Kept) -> None:
    """Bounded; then the next tier. A checkpoint that is there already is used at once."""
    begin(kept)
    kept.floor(0)
    transaction = kept.checkpoints.begin()
    transaction.put(kept.partition, KEY, kept.checkpoint().to_bytes())
    found = kept.recoverer.recover("case-17")
    assert found.report.tier is Tier.SCAN
    assert any("open transaction" in note for note in found.report.notes)
    transaction.commit()
    assert kept.recoverer.recover("case-17").report.tier is Tier.CHECKPOINT


def test_a_gap_in_the_tail_is_the_folds_finding(kept: Kept) -> None:
    """Degraded; the tier did its work."""
    begin(kept)
    kept.save()
    kept.owner.seq += 2
    kept.owner.update("k", "9")
    found = kept.recoverer.recover("case-17")
    assert (found.report.tier, found.state) == (Tier.CHECKPOINT, kept.state())
    assert found.state.degraded is not None


# --- the past ---------------------------------------------------------------------------------------------------------
def test_the_past_is_reached_from_the_best_base(kept: Kept) -> None:
    """The newest checkpoint at or below the point, where there is one; else the scan."""
    begin(kept)
    kept.save(floor=0)
    kept.owner.update("k", "4")
    kept.owner.update("k", "5")

    def way(**point: int) -> tuple[Tier, object]:
        found = kept.recoverer.recover("case-17", point=Point(**point))
        return found.report.tier, found.state.context["k"]

    assert way(offset=4) == (Tier.CHECKPOINT, 4)
    assert way(offset=3) == (Tier.CHECKPOINT, 3)
    assert way(offset=2) == (Tier.SCAN, 2)
    assert way(seq=4) == (Tier.CHECKPOINT, 4)
    assert way(seq=3) == (Tier.SCAN, 3)


def test_the_past_of_a_trimmed_log_starts_from_an_older_checkpoint_that_is_left(kept: Kept) -> None:
    """Until it is compacted away: then it is a gap."""
    begin(kept)
    kept.save()
    for number in ("4", "5"):
        kept.owner.update("k", number)
    kept.save()
    kept.log.trim(kept.partition, 4)
    found = kept.recoverer.recover("case-17", point=Point(seq=4))
    assert (found.state.context, found.report.tier) == ({"k": 4}, Tier.CHECKPOINT)
    with pytest.raises(JournalGap):
        kept.recoverer.recover("case-17", point=Point(seq=2))
    kept.checkpoints.compact(kept.partition)
    with pytest.raises(JournalGap):
        kept.recoverer.recover("case-17", point=Point(seq=4))
    assert kept.recoverer.recover("case-17").state.context == {"k": 5}


# --- the last checkpoint ----------------------------------------------------------------------------------------------
def test_the_last_checkpoint_says_where_it_is(kept: Kept) -> None:
    """And where a recovery would start; None without one."""
    begin(kept)
    assert kept.recoverer.last_checkpoint("case-17") is None
    kept.foreign(2)
    position = kept.save()
    found = kept.recoverer.last_checkpoint("case-17")
    assert found is not None
    assert (found.offset, found.seq, found.epoch, found.position) == (3, 3, 1, position)
    assert (found.floor, found.seek_point, found.problem) == (6, 6, None)


def test_a_last_checkpoint_that_may_not_be_used_says_why(kept: Kept) -> None:
    """Looking is not using."""
    begin(kept)
    damaged_hash(kept)
    found = kept.recoverer.last_checkpoint("case-17")
    assert found is not None
    assert found.problem is not None
    assert "hash" in found.problem
