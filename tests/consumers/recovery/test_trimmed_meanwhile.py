"""A log is trimmed while it is read: what was read before does not prove that anything is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pytest

from seekpoint.consumers import Tier
from seekpoint.consumers.recovery.absence_proof import prove_absence
from seekpoint.consumers.recovery.process_history import history
from seekpoint.consumers.recovery.verification import verify, verify_all
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.log.log_ports import Batch
from stored_process import Kept, begin


def trimming(kept: Kept, monkeypatch: pytest.MonkeyPatch, reads: int = 1) -> Callable[[], bool]:
    """Publish a newer floor and trim the log to it at that read of the log; return whether it happened."""
    read, left = kept.log.read, iter(range(reads - 1, -1, -1))
    done = False

    def trimmed(partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        nonlocal done
        if not next(left):
            monkeypatch.undo()
            high = kept.log.watermarks(partition).high
            kept.save()
            kept.owner.update("k", "5")
            kept.log.trim(partition, high)
            done = True
        return read(partition, start, stop, keys)

    monkeypatch.setattr(kept.log, "read", trimmed)
    return lambda: done


@pytest.mark.parametrize("tier", [None, Tier.CHECKPOINT])
@pytest.mark.parametrize("is_bulk", [False, True])
def test_a_log_that_is_trimmed_meanwhile_is_no_gap(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tier: Tier | None, is_bulk: bool
) -> None:
    """The log is trimmed to a newer floor between the search for a base and the read of the tail."""
    begin(kept)
    kept.save()
    kept.owner.update("k", "4")
    trimming(kept, monkeypatch)
    if is_bulk:
        found = kept.recoverer.recover_partition(kept.partition, ["case-17"], tier=tier)["case-17"]
    else:
        found = kept.recoverer.recover("case-17", tier=tier)
    assert found.state.context == {"k": 5}
    assert (found.report.tier, found.report.seek_point) == (Tier.CHECKPOINT, 5)


def test_a_proof_of_absence_is_made_from_the_newer_floor(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is trimmed after the floor was read and before the keys are."""
    begin(kept)
    kept.save()
    kept.owner.update("k", "4")
    stop = kept.log.watermarks(kept.partition).high
    trimming(kept, monkeypatch)
    proof = prove_absence(kept.recoverer, kept.partition, stop)
    assert proof is not None
    assert (proof.tier, proof.start, proof.log_start) == (Tier.CHECKPOINT, stop, stop)
    assert proof.may_have_checkpoint(b"case-17")
    assert not proof.may_have_checkpoint(b"nobody")


def test_a_proof_of_absence_where_no_newer_floor_stands_for_what_is_gone_is_none(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was trimmed without a floor: nothing is proven, and no call waits for one."""
    begin(kept)
    read = kept.log.read

    def trimmed(partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        kept.log.trim(partition, 2)
        return read(partition, start, stop, keys)

    monkeypatch.setattr(kept.log, "read", trimmed)
    assert prove_absence(kept.recoverer, kept.partition, 4) is None


def test_a_gap_that_no_trim_made_is_one(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless retry would never report that the log lost entries."""
    begin(kept)

    def gone(partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        raise JournalGap("history is gone", low=0, high=4)

    monkeypatch.setattr(kept.log, "read", gone)
    with pytest.raises(JournalGap):
        prove_absence(kept.recoverer, kept.partition, 4)


@pytest.mark.parametrize("reads", [1, 2, 3])
def test_a_verification_reports_what_a_trim_removed(kept: Kept, monkeypatch: pytest.MonkeyPatch, reads: int) -> None:
    """The trim comes before the scan, between scan and audit, or after both: the remaining methods agree."""
    begin(kept)
    kept.save()
    kept.owner.update("k", "4")
    done = trimming(kept, monkeypatch, reads)
    found = verify(kept.recoverer, "case-17")
    assert done()
    gone = {1: {"scan", "audit"}, 2: {"audit"}, 3: set[str]()}[reads]
    assert found.hashes.keys() & {"scan", "audit"} == {"scan", "audit"} - gone
    assert found.agrees
    assert {way: found.missing[way] for way in gone} == dict.fromkeys(gone, "the log was trimmed: it begins at 5")


@pytest.mark.parametrize("reads", [1, 2])
def test_a_verification_of_all_goes_on_where_the_log_is_trimmed(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """Before the read of the partition each process is verified by its checkpoint; after it no method is missing."""
    begin(kept)
    kept.save()
    kept.owner.update("k", "4")
    done = trimming(kept, monkeypatch, reads)
    [found] = [one for one in verify_all(kept.recoverer) if one.process_id == "case-17"]
    assert done()
    assert found.agrees
    assert ("scan" in found.hashes) is (reads == 2)


def test_the_entries_of_a_log_that_is_trimmed_meanwhile_are_those_that_are_left(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is that of a log that was trimmed before."""
    begin(kept)
    trimming(kept, monkeypatch)
    [[logged]] = list(history(kept.recoverer, "case-17"))
    assert (logged.offset, logged.entry.seq) == (4, 4)


def test_entries_that_were_asked_for_and_are_trimmed_meanwhile_are_a_gap(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is that of a log that was trimmed before."""
    begin(kept)
    trimming(kept, monkeypatch)
    with pytest.raises(JournalGap, match="requested entries were deleted"):
        list(history(kept.recoverer, "case-17", from_seq=2))


def test_a_reader_that_follows_too_slowly_gets_a_gap(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some entries were yielded already. The next ones are deleted, and must not be skipped silently."""
    begin(kept)
    entries = history(kept.recoverer, "case-17", follow=True)
    assert (len(next(entries)), next(entries)) == (4, [])
    kept.owner.update("k", "4")
    trimming(kept, monkeypatch)
    with pytest.raises(JournalGap):
        next(entries)
