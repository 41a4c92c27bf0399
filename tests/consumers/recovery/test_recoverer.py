"""What a recovery by scan returns and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from owners import Owner
from seekpoint.consumers import Recoverer, Tier
from seekpoint.consumers.recovery.points import Point
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidName, JournalGap, TierUnavailable, UnknownPoint, UnknownProcess
from seekpoint.schemas.log.memory_log import MemoryLog


@pytest.fixture
def recoverer(log: MemoryLog) -> Recoverer:
    return Recoverer(log)


def three_updates(owner: Owner) -> list[int]:
    return [owner.claim(), *(owner.update("k", str(number)) for number in (1, 2, 3))]


# --- what there is ----------------------------------------------------------------------------------------------------
def test_a_process_is_recovered_with_a_report(recoverer: Recoverer, owner: Owner) -> None:
    """The report names the tier, the seek point and the cost."""
    three_updates(owner)
    other = Owner(recoverer.log.append, 4, neighbour_of(owner))  # type: ignore[attr-defined]
    other.claim()
    found = recoverer.recover("case-17")
    assert found.state.context == {"k": 3}
    assert found.known
    report = found.report
    assert (report.tier, report.seek_point, report.log_start, report.log_end) == (Tier.SCAN, 0, 0, 5)
    assert (report.entries_scanned, report.entries_applied, report.last_kind) == (5, 3, "context_updated")
    assert report.duration_s > 0
    assert report.to_dict()["tier"] == "scan"


def neighbour_of(owner: Owner) -> str:
    """Return another process id of the same partition."""
    names = (f"neighbour-{number}" for number in range(1_000))
    return next(name for name in names if Owner(owner._append, 4, name).partition == owner.partition)


def test_an_unknown_process_is_refused_on_proof(recoverer: Recoverer) -> None:
    """The whole partition was read, and it starts at 0."""
    with pytest.raises(UnknownProcess) as caught:
        recoverer.recover("case-17")
    assert (caught.value.process_id, caught.value.low, caught.value.high) == ("case-17", 0, 0)


def test_a_missing_process_may_be_a_new_one(recoverer: Recoverer) -> None:
    """``missing_ok`` gives the empty state, whose last kind is None."""
    found = recoverer.recover("case-17", missing_ok=True)
    assert not found.known
    assert found.state.seq == 0
    assert found.report.last_kind is None


def test_forged_entries_and_lost_claims_make_no_process(recoverer: Recoverer, owner: Owner) -> None:
    """No node ever owned the process, and it has no mail."""
    owner.epoch, owner.claim_id = 1, bytes(16)
    owner.update("k", "1")
    owner.external(b.Claim(7, "late", "boot"))
    with pytest.raises(UnknownProcess):
        recoverer.recover("case-17")
    assert recoverer.recover_partition(owner.partition) == {}


def test_a_signal_makes_a_process(recoverer: Recoverer, owner: Owner) -> None:
    """The signal waits in the mailbox for the node that creates the process."""
    owner.external(b.Signal("go", "1"))
    assert [item.name for item in recoverer.recover("case-17").state.mailbox.values()] == ["go"]


def test_a_process_id_that_cannot_be_is_refused(recoverer: Recoverer) -> None:
    """It is refused before anything is read."""
    with pytest.raises(InvalidName):
        recoverer.recover("")


def test_a_trimmed_log_is_a_gap_and_never_an_unknown_process(
    recoverer: Recoverer, owner: Owner, log: MemoryLog
) -> None:
    """The deleted entries may have been of this process. It must not pass for a new one either."""
    three_updates(owner)
    log.trim(owner.partition, 2)
    for call in (
        lambda: recoverer.recover("case-17"),
        lambda: recoverer.recover("case-17", missing_ok=True),
        lambda: recoverer.recover_partition(owner.partition),
    ):
        with pytest.raises(JournalGap, match="no checkpoint covers it") as caught:
            call()
        assert (caught.value.low, caught.value.high) == (2, 4)


@pytest.mark.parametrize("tier", [Tier.VIEW, Tier.CHECKPOINT])
def test_a_forced_tier_that_is_not_there_is_refused(recoverer: Recoverer, owner: Owner, tier: Tier) -> None:
    """Another tier does not replace it."""
    three_updates(owner)
    with pytest.raises(TierUnavailable, match=str(tier)):
        recoverer.recover("case-17", tier=tier)
    assert recoverer.recover("case-17", tier=Tier.SCAN).state.seq == 3


# --- points in the past -----------------------------------------------------------------------------------------------
def test_at_seq_is_right_after_that_entry(recoverer: Recoverer, owner: Owner) -> None:
    """Later entries, a claim included, are not in the state."""
    three_updates(owner)
    owner.claim("node-2")
    found = recoverer.recover("case-17", point=Point(seq=2))
    assert (found.state.context, found.state.seq, found.state.epoch) == ({"k": 2}, 2, 1)
    assert recoverer.recover("case-17", point=Point(seq=3)).state.epoch == 1


def test_a_seq_that_was_never_applied_is_refused(recoverer: Recoverer, owner: Owner) -> None:
    """The error names the current seq, also where a missing process is accepted."""
    three_updates(owner)
    for missing_ok in (False, True):
        with pytest.raises(UnknownPoint) as caught:
            recoverer.recover("case-17", point=Point(seq=4), missing_ok=missing_ok)
        assert (caught.value.at_seq, caught.value.seq) == (4, 3)


def test_at_offset_includes_the_entry_there(recoverer: Recoverer, owner: Owner) -> None:
    """Offsets are those of the log. The last one is the present."""
    offsets = three_updates(owner)
    assert [recoverer.recover("case-17", point=Point(offset=offset)).state.seq for offset in offsets] == [0, 1, 2, 3]


def test_an_offset_beyond_the_log_is_refused(recoverer: Recoverer, owner: Owner) -> None:
    """The log ends before it."""
    three_updates(owner)
    with pytest.raises(UnknownPoint):
        recoverer.recover("case-17", point=Point(offset=4))


def test_a_point_before_the_process_is_refused_or_empty(recoverer: Recoverer, owner: Owner) -> None:
    """The process exists, but it had no entry yet."""
    recoverer.log.append(owner.partition, b"x", b"y", 500)  # type: ignore[attr-defined]
    three_updates(owner)
    with pytest.raises(UnknownPoint):
        recoverer.recover("case-17", point=Point(offset=0))
    assert recoverer.recover("case-17", point=Point(offset=0), missing_ok=True).state.seq == 0


def test_at_time_is_before_the_first_entry_that_is_not_older(log: MemoryLog, owner: Owner) -> None:
    """Times are exact to the millisecond, given as a number or as an aware datetime."""
    clock = iter((1_000, 2_000, 3_000, 3_000))
    owner._append = lambda partition, key, value: log.append(partition, key, value, next(clock))
    three_updates(owner)
    recoverer = Recoverer(log)

    def seq_at(time: float | datetime) -> int:
        return recoverer.recover("case-17", point=Point(time=time)).state.seq

    assert [seq_at(time) for time in (1.001, 2.0, 2.0001, 2.001, 3.0, 3.001, 99.0)] == [0, 0, 1, 1, 1, 3, 3]
    assert seq_at(datetime.fromtimestamp(2.5, UTC)) == 1
    with pytest.raises(UnknownPoint):
        seq_at(1.0)


@pytest.mark.parametrize(
    "point",
    [
        {"seq": 1, "offset": 1},
        {"seq": 0},
        {"seq": True},
        {"seq": "1"},
        {"offset": -1},
        {"offset": 1.0},
        {"time": datetime(2026, 1, 1)},
        {"time": float("nan")},
        {"time": float("inf")},
        {"time": True},
        {"time": "2026-01-01"},
        {"seq": 1, "time": 1.0},
    ],
    ids=repr,
)
def test_a_point_that_no_log_can_have_is_refused(point: dict[str, object]) -> None:
    """It is refused before anything is read."""
    with pytest.raises(UnknownPoint):
        Point(**point)  # type: ignore[arg-type]


# --- many at once -----------------------------------------------------------------------------------------------------
def test_many_are_recovered_with_one_scan_a_partition(log: MemoryLog) -> None:
    """This holds for any number of processes. An unknown one is returned as not known."""
    names = [f"case-{number}" for number in range(40)]
    for name in names:
        three_updates(Owner(log.append, 4, name))
    reads: list[int] = []
    plain = log.read
    log.read = lambda partition, *rest: reads.append(partition) or plain(partition, *rest)  # type: ignore[method-assign,func-returns-value]
    found = Recoverer(log).recover_many([*names, "unknown", *names])
    assert sorted(reads) == [0, 1, 2, 3]
    assert found.keys() == {*names, "unknown"}
    assert {name: one.state.seq for name, one in found.items() if one.known} == dict.fromkeys(names, 3)
    assert not found["unknown"].known
