"""Which offsets are read: seeks by time and offset, at every edge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.selection import Gap, Selection, parse_offsets, ranges_of
from seekpoint.consumers.staging.record_location import RecordLocation
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.errors import InvalidName, InvalidSetting


def topic(*stamps: int) -> MemoryTopic:
    """One partition with records of these times."""
    made = MemoryTopic(1)
    for stamp in stamps:
        made.append(0, b"k", b"v", stamp)
    return made


def read(made: MemoryTopic, **wanted: object) -> tuple[list[OffsetRange], list[Gap]]:
    return ranges_of(Selection(**wanted), made.watermarks(), made.offset_at)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, (0, 5)),
        (5, None, (0, 5)),  # before the first record
        (10, None, (0, 5)),  # exactly the first
        (15, None, (1, 5)),  # between two
        (20, None, (1, 5)),  # the first of equal ones
        (31, None, None),  # after the last
        (10**15, None, None),  # a time to come
        (None, 10, None),  # up to, not including
        (None, 20, (0, 1)),  # none of the equal ones
        (None, 21, (0, 4)),
        (None, 10**15, (0, 5)),
        (20, 30, (1, 4)),
        (30, 20, None),  # the wrong way round: nothing, not everything
    ],
)
def test_a_time_range_is_found_at_its_edges(
    since: int | None, until: int | None, expected: tuple[int, int] | None
) -> None:
    """Since is inclusive, until exclusive; records of one time are all in or all out."""
    ranges, gaps = read(topic(10, 20, 20, 20, 30), since_ms=since, until_ms=until)
    assert ranges == ([] if expected is None else [OffsetRange(0, *expected)])
    assert gaps == []


def test_a_time_range_is_taken_as_the_log_lies() -> None:
    """Out of order: from the first record that is not older to the first that is not older, with what is between."""
    made = topic(10, 30, 12, 40, 15)
    assert read(made, since_ms=20)[0] == [OffsetRange(0, 1, 5)]
    assert read(made, since_ms=11, until_ms=40)[0] == [OffsetRange(0, 1, 3)]


def test_an_empty_partition_is_no_error() -> None:
    """Whatever is asked of it."""
    for wanted in ({}, {"since_ms": 1}, {"until_ms": 1}, {"offsets": {0: (None, None)}}):
        assert read(topic(), **wanted) == ([], [])


@pytest.mark.parametrize(
    ("ends", "expected", "gap"),
    [
        ((None, None), (2, 5), (0, 2)),
        ((0, None), (2, 5), (0, 2)),
        ((2, 2), (2, 3), None),
        ((3, 4), (3, 5), None),
        ((4, 9), (4, 5), (5, 10)),
        ((7, 9), None, (7, 10)),
        ((0, 1), None, (0, 2)),
        ((None, 3), (2, 4), (0, 2)),
    ],
)
def test_offsets_that_are_not_there_are_a_gap(
    ends: tuple[int | None, int | None], expected: tuple[int, int] | None, gap: tuple[int, int] | None
) -> None:
    """Trimmed, or not yet written: what is there is read, and what is not is told."""
    made = topic(1, 2, 3, 4, 5)
    made.trim(0, 2)
    ranges, gaps = read(made, offsets={0: ends})
    assert ranges == ([] if expected is None else [OffsetRange(0, *expected)])
    assert [(each.start, each.stop) for each in gaps] == ([] if gap is None else [gap])


def test_a_trimmed_beginning_is_told_where_a_time_leads_to_it() -> None:
    """Nobody knows whether what is gone belonged to the range."""
    made = topic(1, 2, 3)
    made.trim(0, 2)
    ranges, [gap] = read(made, since_ms=1)
    assert ranges == [OffsetRange(0, 2, 3)]
    assert (gap.start, gap.stop) == (0, 2)
    assert "may have been removed" in gap.why


def test_compacted_gaps_do_not_move_the_ends() -> None:
    """An offset that was compacted away is still an end."""
    made = topic(10, 20, 30, 40)
    made.compact(0, [1, 3])
    assert read(made, since_ms=15)[0] == [OffsetRange(0, 2, 4)]
    assert read(made, offsets={0: (1, 3)})[0] == [OffsetRange(0, 1, 4)]


def test_partitions_that_are_not_named_are_left_out() -> None:
    """Naming one is choosing it."""
    made = MemoryTopic(3)
    for partition in range(3):
        made.append(partition, b"k", b"v")
    assert ranges_of(Selection(offsets={1: (None, None)}), made.watermarks(), made.offset_at)[0] == [
        OffsetRange(1, 0, 1)
    ]
    with pytest.raises(InvalidSetting, match="no such partition"):
        ranges_of(Selection(offsets={3: (None, None)}), made.watermarks(), made.offset_at)


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(-1, 22), st.integers(-1, 22), st.integers(0, 12))
def test_a_range_is_what_a_plain_reading_of_the_rule_gives(
    stamps: list[int], since: int, until: int, trimmed: int
) -> None:
    """The oracle: walk the log, begin at the first not older, end at the first not older."""
    made = topic(*stamps)
    made.trim(0, min(trimmed, len(stamps)))
    left = [(offset, stamp) for offset, stamp in enumerate(stamps) if offset >= trimmed]
    first = next((offset for offset, stamp in left if stamp >= since), len(stamps))
    end = next((offset for offset, stamp in left if stamp >= until), len(stamps))
    ranges, _ = read(made, since_ms=since, until_ms=until)
    assert ranges == ([OffsetRange(0, first, end)] if first < end else [])


@pytest.mark.parametrize("text", ["", "3", "3:", "a:1-2", "1:2-3-4", "-1:2", "1:-2-", ":1"])
def test_offsets_that_cannot_be_meant_are_refused(text: str) -> None:
    """Except a bare partition with a dash, which is all of it."""
    if text == "3:":
        assert parse_offsets("3:-") == (3, (None, None))
    with pytest.raises(InvalidSetting):
        parse_offsets(text)


@pytest.mark.parametrize("text", ["", "prod", "/topic", "prod/", "a/b/c"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    """With the form it should have."""
    with pytest.raises(InvalidName, match=r"prod/fleet\.journal"):
        RecordLocation.parse(text)
