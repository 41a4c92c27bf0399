"""What the log in memory promises to writers and to tests that break it; the readers' part is its contract's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from seekpoint.schemas.errors import JournalGap, JournalUnavailable
from seekpoint.schemas.log.log_ports import Delivery, Outgoing
from seekpoint.schemas.log.memory_log import MemoryLog


class Told:
    """Keeps what an appender was told, in order."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def __call__(self, deliveries: Sequence[Delivery]) -> None:
        self.deliveries += deliveries

    @property
    def offsets(self) -> list[tuple[object, int]]:
        """Token and offset of each."""
        return [(delivery.token, delivery.offset) for delivery in self.deliveries]


def records(*tokens: int) -> list[Outgoing]:
    """Records of partition 0 whose value is their token."""
    return [Outgoing(0, b"p", str(token).encode(), token) for token in tokens]


def values(log: MemoryLog) -> list[bytes | None]:
    """What lies in partition 0."""
    mark = log.watermarks(0)
    return [record.value for batch in log.read(0, mark.low, mark.high) for record in batch.records]


def test_an_append_lands_and_is_told_with_its_offset() -> None:
    """In order, before send returns."""
    log, told = MemoryLog(), Told()
    assert log.appender(told).send(records(1, 2)) == 2
    assert told.offsets == [(1, 0), (2, 1)]
    assert values(log) == [b"1", b"2"]


def test_dropped_acknowledgements_come_after_the_healing() -> None:
    """The records are there, in order, and nobody was told; then everybody is."""
    log, told = MemoryLog(), Told()
    appender = log.appender(told)
    log.drop_acknowledgements()
    appender.send(records(1))
    appender.send(records(2))
    assert (values(log), told.deliveries) == ([b"1", b"2"], [])
    log.heal()
    assert told.offsets == [(1, 0), (2, 1)]
    appender.send(records(3))
    assert told.offsets[2:] == [(3, 2)]


def test_refused_appends_land_in_their_order_after_the_healing() -> None:
    """As a producer does that never lets a message expire."""
    log, told = MemoryLog(), Told()
    appender = log.appender(told)
    log.refuse_appends()
    appender.send(records(1, 2))
    assert (values(log), told.deliveries) == ([], [])
    log.heal()
    appender.send(records(3))
    assert (values(log), told.offsets) == ([b"1", b"2", b"3"], [(1, 0), (2, 1), (3, 2)])


def test_a_retired_appender_answers_what_is_open_and_takes_nothing_more() -> None:
    """Landed or not: each record has one delivery, with an error; a second retirement is no news."""
    log, told = MemoryLog(), Told()
    appender = log.appender(told)
    log.drop_acknowledgements()
    appender.send(records(1))
    log.refuse_appends()
    appender.send(records(2))
    appender.retire(0.0)
    appender.retire(0.0)
    log.heal()
    assert told.offsets == [(1, -1), (2, -1)]
    assert all(isinstance(delivery.error, JournalUnavailable) for delivery in told.deliveries)
    assert appender.send(records(3)) == 0
    assert values(log) == [b"1"]


def test_a_log_trimmed_under_a_reader_is_a_gap() -> None:
    """Records that were asked for and are gone are never passed over silently."""
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
    """None deletes; what is handed out is a copy."""
    table = MemoryLog().table("nodes")
    table.put(b"a", b"1")
    table.put(b"a", b"2")
    table.put(b"b", b"1")
    table.put(b"b", None)
    items = table.items()
    table.put(b"a", None)
    assert items == {b"a": b"2"}
    assert table.items() == {}


def test_a_log_has_one_table_of_a_name() -> None:
    """Everyone who holds the log shares it."""
    log = MemoryLog()
    log.table("nodes").put(b"a", b"1")
    assert log.table("nodes").items() == {b"a": b"1"}
    assert log.table("schemas").items() == {}
