"""The offset ranges of selections by time and offset."""

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
    """A topic of one partition with records of these times."""
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
    """``since`` is inclusive, ``until`` exclusive."""
    ranges, gaps = read(topic(10, 20, 20, 20, 30), since_ms=since, until_ms=until)
    assert ranges == ([] if expected is None else [OffsetRange(0, *expected)])
    assert gaps == []


def test_a_time_range_has_all_records_between_its_ends() -> None:
    """All records between the first not older than ``since`` and the first not older than ``until`` are selected."""
    made = topic(10, 30, 12, 40, 15)
    assert read(made, since_ms=20)[0] == [OffsetRange(0, 1, 5)]
    assert read(made, since_ms=11, until_ms=40)[0] == [OffsetRange(0, 1, 3)]


def test_an_empty_partition_is_no_error() -> None:
    """No selection fails on it."""
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
def test_missing_offsets_are_a_gap(
    ends: tuple[int | None, int | None], expected: tuple[int, int] | None, gap: tuple[int, int] | None
) -> None:
    """Existing offsets are read; trimmed and future ones are gaps."""
    made = topic(1, 2, 3, 4, 5)
    made.trim(0, 2)
    ranges, gaps = read(made, offsets={0: ends})
    assert ranges == ([] if expected is None else [OffsetRange(0, *expected)])
    assert [(each.start, each.stop) for each in gaps] == ([] if gap is None else [gap])


def test_a_time_before_a_trimmed_beginning_is_a_gap() -> None:
    """The trimmed records may have belonged to the range."""
    made = topic(1, 2, 3)
    made.trim(0, 2)
    ranges, [gap] = read(made, since_ms=1)
    assert ranges == [OffsetRange(0, 2, 3)]
    assert (gap.start, gap.stop) == (0, 2)
    assert "may have been removed" in gap.why


def test_compacted_gaps_do_not_move_the_ends() -> None:
    """A compacted offset can be the end of a range."""
    made = topic(10, 20, 30, 40)
    made.compact(0, [1, 3])
    assert read(made, since_ms=15)[0] == [OffsetRange(0, 2, 4)]
    assert read(made, offsets={0: (1, 3)})[0] == [OffsetRange(0, 1, 4)]


def test_partitions_without_selected_offsets_are_left_out() -> None:
    """Offsets of one partition select only this partition."""
    made = MemoryTopic(3)
    for partition in range(3):
        made.append(partition, b"k", b"v")
    assert ranges_of(Selection(offsets={1: (None, None)}), made.watermarks(), made.offset_at)[0] == [
        OffsetRange(1, 0, 1)
    ]
    with pytest.raises(InvalidSetting, match="no such partition"):
        ranges_of(Selection(offsets={3: (None, None)}), made.watermarks(), made.offset_at)


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(-1, 22), st.integers(-1, 22), st.integers(0, 12))
def test_a_range_equals_that_of_a_simple_oracle(stamps: list[int], since: int, until: int, trimmed: int) -> None:
    """The oracle walks the log from the first record not older to the next one not older."""
    made = topic(*stamps)
    made.trim(0, min(trimmed, len(stamps)))
    left = [(offset, stamp) for offset, stamp in enumerate(stamps) if offset >= trimmed]
    first = next((offset for offset, stamp in left if stamp >= since), len(stamps))
    end = next((offset for offset, stamp in left if stamp >= until), len(stamps))
    ranges, _ = read(made, since_ms=since, until_ms=until)
    assert ranges == ([OffsetRange(0, first, end)] if first < end else [])


@pytest.mark.parametrize("text", ["", "3", "3:", "a:1-2", "1:2-3-4", "-1:2", "1:-2-", ":1"])
def test_invalid_offsets_are_refused(text: str) -> None:
    """Only ``PARTITION:-`` has no offsets: it is the whole partition."""
    if text == "3:":
        assert parse_offsets("3:-") == (3, (None, None))
    with pytest.raises(InvalidSetting):
        parse_offsets(text)


@pytest.mark.parametrize("text", ["", "prod", "/topic", "prod/", "a/b/c"])
def test_an_invalid_location_is_refused(text: str) -> None:
    """The error names the two valid forms."""
    with pytest.raises(InvalidName, match=r"prod/fleet\.journal"):
        RecordLocation.parse(text)
