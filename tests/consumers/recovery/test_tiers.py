"""When each tier is used, and where it starts to read."""

from __future__ import annotations

import pytest

from seekpoint.consumers import Tier
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.checkpoints.checkpoint_index import CheckpointIndex
from seekpoint.consumers.recovery.base_search import Base, Search, Unusable
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas.bodies import LifecycleChanged
from seekpoint.schemas.errors import JournalGap, TierUnavailable
from seekpoint.schemas.log.log_ports import Watermarks
from stored_process import Kept, begin


# --- the three recoveries ---------------------------------------------------------------------------------------------
def test_a_checkpoint_and_three_updates(kept: Kept) -> None:
    """From check_count 8, three entries are applied: 9, 10, 11."""
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
    """All three are applied by scan. Claims are not counted."""
    begin(kept)
    found = kept.recoverer.recover("case-17")
    assert (found.report.tier, found.report.entries_applied, found.report.notes) == (Tier.SCAN, 3, ())


def test_nothing_at_all(kept: Kept) -> None:
    """The state is empty: {}, created, 0."""
    found = kept.recoverer.recover("case-17", missing_ok=True)
    assert (found.state.context, str(found.state.lifecycle), found.report.entries_applied) == ({}, "created", 0)


# --- each tier reads no more than it must -----------------------------------------------------------------------------
def test_a_view_that_is_up_to_date_reads_no_journal(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the end of the log is asked for."""
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
    """The tail is what the view has not applied yet."""
    begin(kept)
    kept.project()
    kept.foreign(5)
    kept.owner.update("k", "4")
    report = kept.recoverer.recover("case-17").report
    assert (report.tier, report.entries_scanned, report.entries_applied, report.notes) == (Tier.VIEW, 6, 1, ())
    assert kept.recoverer.recover("case-17").state == kept.state()


def unusable(search: Search, marks: Watermarks) -> Base:
    raise Unusable("it is damaged")


def test_a_checkpoint_is_found_by_the_views_pointer(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record is read, and not the partition."""
    begin(kept)
    position = kept.save()
    kept.project(Pointer(position, 4))
    kept.owner.update("k", "4")
    expected = kept.state()
    monkeypatch.setattr(kept.checkpoints, "records", None)
    monkeypatch.setattr(kept.recoverer.base_finder, "from_view", unusable)
    found = kept.recoverer.recover("case-17")
    assert found.state == expected
    assert (found.report.seek_point, found.report.entries_scanned) == (4, 1)


def test_the_seek_point_is_the_floor_where_that_is_higher(kept: Kept) -> None:
    """The process has no entry between its old checkpoint and the floor."""
    begin(kept)
    kept.foreign(1_000)
    kept.save()
    kept.foreign(3)
    report = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT).report
    assert (report.seek_point, report.entries_scanned) == (1_004, 3)


def test_the_index_reads_on_from_where_it_was(kept: Kept) -> None:
    """Each head is read once."""
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
    """The partition that was used longest ago is dropped, and read again when it is needed."""
    index = CheckpointIndex(kept.checkpoints, heads_max=2)
    value = kept_bytes(kept)
    for partition in range(3):
        kept.checkpoints.write(partition, [(b"a", value), (b"b", value)])
    assert [index.find(partition, b"a").head is not None for partition in (0, 1, 2, 0)] == [True] * 4
    assert len(index._partitions) == 1


def kept_bytes(kept: Kept) -> bytes:
    begin(kept)
    return kept.checkpoint().to_bytes()


# --- P7 ---------------------------------------------------------------------------------------------------------------
def test_a_pointer_is_used_with_its_own_floor_and_no_newer_one(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view has an old pointer. With the floor of the newer checkpoint, entries would be skipped."""
    begin(kept)
    old = kept.save()
    kept.owner.update("k", "4")
    kept.project(Pointer(old, 4))
    kept.save()
    monkeypatch.setattr(kept.recoverer.base_finder, "from_view", unusable)
    found = kept.recoverer.recover("case-17")
    assert found.state.context == {"k": 4}
    assert found.report.seek_point == 4


def test_a_pointer_is_used_with_its_floor(kept: Kept) -> None:
    """The process has no entry between the checkpoint and its floor, so these are not read."""
    begin(kept)
    kept.foreign(20)
    position = kept.save()
    kept.project(Pointer(position, 24))
    kept.checkpoints.write(kept.partition, [(FLOOR_KEY, b"junk")])
    kept.owner.update("k", "4")
    report = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT).report
    assert (report.seek_point, report.entries_scanned) == (24, 1)


def test_a_damaged_checkpoint_is_not_replaced_by_an_older_one(kept: Kept) -> None:
    """The newest floor does not belong to the older checkpoint."""
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
    """The checkpoint partition is read instead."""
    begin(kept)
    old = kept.save()
    kept.owner.update("k", "4")
    kept.save()
    kept.project(Pointer(old, 4))
    kept.checkpoints.compact(kept.partition)
    kept.owner.update("k", "5")
    found = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    assert (found.state.context, found.report.seek_point, found.report.notes) == ({"k": 5}, 5, ())


# --- the past ---------------------------------------------------------------------------------------------------------
def test_the_past_is_reached_from_the_best_base(kept: Kept) -> None:
    """That is the newest checkpoint at or below the point, or the scan."""
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
    """Once compaction removed it, the result is a gap."""
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
    """It also names the seek point. Without a checkpoint the result is None."""
    begin(kept)
    assert kept.recoverer.last_checkpoint("case-17") is None
    kept.foreign(2)
    position = kept.save()
    found = kept.recoverer.last_checkpoint("case-17")
    assert found is not None
    assert (found.offset, found.seq, found.epoch, found.position) == (3, 3, 1, position)
    assert (found.floor, found.seek_point, found.problem) == (6, 6, None)


def test_a_last_checkpoint_that_may_not_be_used_says_why(kept: Kept) -> None:
    """The call describes the checkpoint and does not use it."""
    begin(kept)
    kept.checkpoints.corrupt(kept.partition, kept.save())
    found = kept.recoverer.last_checkpoint("case-17")
    assert found is not None
    assert found.problem is not None
    assert "hash" in found.problem
