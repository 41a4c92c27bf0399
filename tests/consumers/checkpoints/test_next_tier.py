"""If a tier cannot be used, a recovery uses the next one and the report says so; without a next one it is an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from seekpoint.consumers import Tier
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.recovery.loss_acceptance import accept_partition_loss
from seekpoint.schemas.bodies import ContextUpdated
from seekpoint.schemas.errors import JournalGap, LogTruncated, NewerFormat, TierUnavailable, UnknownProcess
from seekpoint.schemas.state.process_state import FOLD_VERSION
from stored_process import KEY, Kept, begin


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


def floor_beyond_the_end(kept: Kept) -> None:
    kept.floor(99)


CHECKPOINT_FAULTS: dict[Callable[[Kept], None], str] = {
    damaged_hash: "does not have its hash",
    other_topic: "another journal topic",
    other_process: "another process",
}


@pytest.mark.parametrize("fault", CHECKPOINT_FAULTS, ids=lambda fault: fault.__name__)
def test_a_checkpoint_that_may_not_be_used_is_the_next_tier(
    kept: Kept, fault: Callable[[Kept], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The report and the log say why. If the tier is forced, the error names the reason."""
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


def damaged_row(kept: Kept) -> None:
    kept.view.damage(kept.partition, KEY)


VIEW_FAULTS: dict[Callable[[Kept], None], str] = {
    redis_down: "down",
    damaged_row: "does not have its hash",
    no_view: "there is none",
    rebuilding: "being rebuilt",
    view_of_another_topic: "another journal topic",
    view_behind_the_logs_beginning: "behind the log's beginning",
}


@pytest.mark.parametrize("fault", VIEW_FAULTS, ids=lambda fault: fault.__name__)
def test_a_view_that_may_not_be_used_is_the_next_tier(kept: Kept, fault: Callable[[Kept], None]) -> None:
    """The recovery uses the checkpoint, and the report says why."""
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


LOST_ENDS = beyond_the_end, another_leader_epoch, floor_beyond_the_end, view_beyond_the_end, view_on_a_truncated_log


@pytest.mark.parametrize("fault", LOST_ENDS, ids=lambda fault: fault.__name__)
def test_a_lost_end_leads_to_the_next_tier_once_it_is_accepted(kept: Kept, fault: Callable[[Kept], None]) -> None:
    """Until then nobody goes on."""
    begin(kept)
    fault(kept)
    for _ in range(2):
        with pytest.raises(LogTruncated, match="--accept-loss"):
            kept.recoverer.recover("case-17")
        with pytest.raises(LogTruncated):
            kept.recoverer.recover_many(["case-17"])
    accept_partition_loss(kept.recoverer, kept.partition, actor="ann", reason="a disk is gone")
    found = kept.recoverer.recover("case-17")
    assert found.state == kept.state()
    assert found.report.tier is not Tier.VIEW
    assert kept.recoverer.recover_many(["case-17"])["case-17"].state == found.state


def test_a_leader_that_moved_is_no_truncation(kept: Kept) -> None:
    """The records that the bases depend on are still the same."""
    begin(kept)
    kept.save()
    kept.project()
    kept.log.elect(kept.partition)
    kept.owner.update("k", "4")
    for tier in Tier:
        assert kept.recoverer.recover("case-17", tier=tier).state == kept.state()


def test_a_warning_is_not_repeated_for_each_recovery(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """Five thousand recoveries while Redis is down log one line."""
    begin(kept)
    kept.view.down()
    for _ in range(5):
        assert kept.recoverer.recover("case-17").report.notes
    assert len(caplog.records) == 1


def test_what_a_newer_seekpoint_wrote_is_never_passed_over(kept: Kept) -> None:
    """Neither its checkpoint nor its state is skipped. Other processes are recovered."""
    begin(kept)
    newer = kept.checkpoint().to_bytes().replace(b'"format":1', b'"format":99', 1)
    kept.checkpoints.write(kept.partition, [(KEY, newer)])
    kept.floor(4)
    with pytest.raises(NewerFormat):
        kept.recoverer.recover("case-17")
    with pytest.raises(NewerFormat):
        kept.recoverer.recover_many(["case-17"])
    state = kept.checkpoint().state.replace(b'"fold_version":%d' % FOLD_VERSION, b'"fold_version":99')
    made = Checkpoint.from_bytes(kept.checkpoint().to_bytes().partition(b"\n")[0] + b"\n" + state)
    from hashlib import blake2b

    kept.save(replace(made, digest=blake2b(state, digest_size=16).hexdigest()))
    with pytest.raises(NewerFormat):
        kept.recoverer.recover("case-17")


# --- what is not there ------------------------------------------------------------------------------------------------
def test_an_unknown_process_is_proven_without_the_logs_beginning(kept: Kept) -> None:
    """The view and its tail prove it, or the checkpoints and the log from a floor inside it."""
    kept.foreign(6)
    kept.floor(5)
    kept.log.trim(kept.partition, 5)
    with pytest.raises(UnknownProcess):
        kept.recoverer.recover("case-17")
    token = kept.view.install(kept.partition, kept.log.topic_id)
    kept.view.ready(kept.partition, token, 5, -1)
    assert kept.recoverer.recover("case-17", missing_ok=True).report.tier is Tier.VIEW


def test_a_floor_below_the_logs_beginning_proves_nothing(kept: Kept) -> None:
    """The result is a gap with low, high and the reason."""
    kept.foreign(6)
    kept.floor(4)
    kept.log.trim(kept.partition, 5)
    with pytest.raises(JournalGap, match="below the log's beginning") as caught:
        kept.recoverer.recover("case-17", missing_ok=True)
    assert (caught.value.low, caught.value.high) == (5, 6)


def test_an_open_transaction_is_waited_for_before_a_process_is_unknown(kept: Kept) -> None:
    """The wait is bounded, then the next tier is used. An existing checkpoint is used at once."""
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
    """The process is degraded. The tier could be used."""
    begin(kept)
    kept.save()
    kept.owner.seq += 2
    kept.owner.update("k", "9")
    found = kept.recoverer.recover("case-17")
    assert (found.report.tier, found.state) == (Tier.CHECKPOINT, kept.state())
    assert found.state.degraded is not None
