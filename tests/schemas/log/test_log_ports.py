"""The log in memory: its appenders, its faults and its tables. The contract suite tests its reader."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from seekpoint.schemas.errors import JournalGap, JournalUnavailable
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord
from seekpoint.schemas.log.memory_log import MemoryLog


class Reports:
    """Collects delivery reports in order."""

    def __init__(self) -> None:
        self.deliveries: list[DeliveryReport] = []

    def __call__(self, deliveries: Sequence[DeliveryReport]) -> None:
        self.deliveries += deliveries

    @property
    def offsets(self) -> list[tuple[object, int]]:
        """Return the token and the offset of each report."""
        return [(delivery.token, delivery.offset) for delivery in self.deliveries]


def records(*tokens: int) -> list[ProducerRecord]:
    """Return records of partition 0 whose value is their token."""
    return [ProducerRecord(0, b"p", str(token).encode(), token) for token in tokens]


def values(log: MemoryLog) -> list[bytes | None]:
    """Return the values in partition 0."""
    mark = log.watermarks(0)
    return [record.value for batch in log.read(0, mark.low, mark.high) for record in batch.records]


def test_an_append_is_reported_with_its_offset() -> None:
    """The reports arrive in order, before send returns."""
    log, reports = MemoryLog(), Reports()
    assert log.appender(reports).send(records(1, 2)) == 2
    assert reports.offsets == [(1, 0), (2, 1)]
    assert values(log) == [b"1", b"2"]


def test_dropped_acknowledgements_arrive_after_heal() -> None:
    """The records are in the log in order; their reports arrive with heal."""
    log, reports = MemoryLog(), Reports()
    appender = log.appender(reports)
    log.drop_acknowledgements()
    appender.send(records(1))
    appender.send(records(2))
    assert (values(log), reports.deliveries) == ([b"1", b"2"], [])
    log.heal()
    assert reports.offsets == [(1, 0), (2, 1)]
    appender.send(records(3))
    assert reports.offsets[2:] == [(3, 2)]


def test_refused_appends_are_appended_in_order_after_heal() -> None:
    """The log behaves like a producer whose messages never expire."""
    log, reports = MemoryLog(), Reports()
    appender = log.appender(reports)
    log.refuse_appends()
    appender.send(records(1, 2))
    assert (values(log), reports.deliveries) == ([], [])
    log.heal()
    appender.send(records(3))
    assert (values(log), reports.offsets) == ([b"1", b"2", b"3"], [(1, 0), (2, 1), (3, 2)])


def test_a_retired_appender_reports_open_records_as_failed_and_accepts_no_more() -> None:
    """Each record gets one report with an error, whether or not it was appended; retire is idempotent."""
    log, reports = MemoryLog(), Reports()
    appender = log.appender(reports)
    log.drop_acknowledgements()
    appender.send(records(1))
    log.refuse_appends()
    appender.send(records(2))
    appender.retire(0.0)
    appender.retire(0.0)
    log.heal()
    assert reports.offsets == [(1, -1), (2, -1)]
    assert all(isinstance(delivery.error, JournalUnavailable) for delivery in reports.deliveries)
    assert appender.send(records(3)) == 0
    assert values(log) == [b"1"]


def test_a_log_trimmed_during_a_read_raises_a_gap() -> None:
    """A reader never silently skips records that were trimmed."""
    log = MemoryLog()
    for number in range(1_200):
        log.append(0, b"p", str(number).encode())
    reading = log.read(0, 0, 1_200)
    assert len(next(reading).records) == 500
    log.trim(0, 900)
    with pytest.raises(JournalGap) as caught:
        next(reading)
    assert (caught.value.low, caught.value.high) == (900, 1_200)


def test_a_table_keeps_the_newest_value_of_each_key() -> None:
    """None deletes a key, and items returns a copy."""
    table = MemoryLog().table("nodes")
    table.put(b"a", b"1")
    table.put(b"a", b"2")
    table.put(b"b", b"1")
    table.put(b"b", None)
    items = table.items()
    table.put(b"a", None)
    assert items == {b"a": b"2"}
    assert table.items() == {}


def test_a_log_has_one_table_per_name() -> None:
    """Each call with the same name returns the same table."""
    log = MemoryLog()
    log.table("nodes").put(b"a", b"1")
    assert log.table("nodes").items() == {b"a": b"1"}
    assert log.table("others").items() == {}
