"""Due times, the merge by time, and the histogram of lateness."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.staging.copy.merge import QUEUE_RECORDS_MAX, TimestampMerge
from seekpoint.consumers.staging.copy.pace import DueTimes, Lateness, Pace
from seekpoint.schemas.errors import InvalidSetting


@given(st.lists(st.integers(0, 10_000), min_size=1), st.floats(0.1, 100), st.floats(0, 1e6))
def test_nothing_drifts(stamps: list[int], speed: float, anchor: float) -> None:
    """Each record is due at its distance from the first, and never before an earlier one."""
    due_times = DueTimes(Pace(speed=speed))
    newest, now = stamps[0], anchor
    for stamp in stamps:
        due = due_times.due(now, stamp)
        newest = max(newest, stamp)
        assert due == pytest.approx(anchor + (newest - stamps[0]) / 1000 / speed)
        now = due + 5.0  # whoever sends is always five seconds late


def test_a_fixed_rate_has_one_anchor() -> None:
    """At 1,000 per second, the record after a thousand others is due a second after the first."""
    due_times = DueTimes(Pace(rate=1000))
    dues = [due_times.due(7.0 + number, 0) for number in range(1001)]
    assert dues[0] == 7.0
    assert dues[1000] == pytest.approx(8.0)


def test_a_pause_moves_all_later_due_times() -> None:
    """A pause makes no record late."""
    due_times = DueTimes(Pace(speed=1))
    assert due_times.due(1.0, 1_000) == 1.0
    due_times.shift(30.0)
    assert due_times.due(32.0, 2_000) == 32.0


@pytest.mark.parametrize("wrong", [{"speed": 0}, {"speed": -1}, {"rate": math.inf}, {"speed": 1, "rate": 1}])
def test_an_invalid_pace_is_refused(wrong: dict[str, float]) -> None:
    """Zero, negative, infinite values and two paces at once are refused."""
    with pytest.raises(InvalidSetting):
        Pace(**wrong)


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(1, 100))
def test_percentiles_are_right_to_two_percent(values: list[float], percent: float) -> None:
    """They match the nearest rank of the sorted values, and memory does not grow."""
    lateness = Lateness()
    for value in values:
        lateness.add(value)
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    found = lateness.percentile(percent)
    assert exact - 1e-9 <= found <= max(exact * 1.021, 1.1e-6)
    assert lateness.max_s == max(values)


def test_early_is_on_time() -> None:
    """Negative lateness counts as 0."""
    lateness = Lateness()
    lateness.add(-5.0)
    assert lateness.to_dict() == {"p50_ms": 0.0, "p99_ms": 0.0, "max_ms": 0.0}


records = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=60)


@given(records)
def test_a_merge_orders_by_time_and_keeps_each_partitions_order(given_records: list[tuple[int, int]]) -> None:
    """Records come out by time, in the order of their partition, without loss."""
    merge = TimestampMerge(range(4))
    for number, (partition, stamp) in enumerate(given_records):
        merge.add(partition, stamp, (partition, number, stamp))
    for partition in range(4):
        merge.finish(partition)
    out = []
    while (record := merge.next()) is not None:
        out.append(record)
    for partition in range(4):
        assert [n for p, n, _ in out if p == partition] == [
            n for n, (p, _) in enumerate(given_records) if p == partition
        ]
    newest: dict[int, int] = {}
    effective = []
    for partition, _, stamp in out:
        newest[partition] = max(stamp, newest.get(partition, stamp))
        effective.append(newest[partition])
    assert effective == sorted(effective)


def test_a_merge_waits_for_the_partition_that_may_be_earlier() -> None:
    """The merge waits until that partition has a record or is finished."""
    merge = TimestampMerge([0, 1])
    merge.add(0, 100, "late")
    assert merge.next() is None
    merge.add(1, 50, "early")
    assert merge.next() == "early"
    assert merge.next() is None
    merge.finish(1)
    assert merge.next() == "late"


def test_a_merge_is_full_at_one_bound_and_has_room_below_another() -> None:
    """Between the two bounds nothing changes."""
    merge = TimestampMerge([0])
    for number in range(QUEUE_RECORDS_MAX):
        assert not merge.is_full(0)
        merge.add(0, number, number)
    assert merge.is_full(0)
    assert not merge.has_room(0)
    for _ in range(QUEUE_RECORDS_MAX // 2):
        merge.next()
    assert merge.has_room(0)
