"""The selection of records: ranges of offsets first, then conditions on each record.

A time range begins at the first record that is not older than its start, and ends before the first that is not older
than its end. All records between them belong to it, whatever their timestamps are, so the range cuts no gap into the
history of a process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import field

from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Watermarks


class Gap(NamedTuple):
    """Selected offsets that the source does not have."""

    partition: int
    start: int
    stop: int
    why: str


class Selection(FrozenStruct, frozen=True, kw_only=True):
    """The records to replay; by default all that exist when the replay starts.

    Times are milliseconds since 1970: ``since_ms`` inclusive, ``until_ms`` exclusive. ``offsets`` maps partitions to
    their first and last offset, inclusive, None for an open end; it leaves out other partitions.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    offsets: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    processes: frozenset[str] | None = None
    kinds: frozenset[str] = frozenset()
    actors: frozenset[str] = frozenset()
    headers: Mapping[str, str | None] = field(default_factory=dict)
    """Names of headers and the text that each must have; None for any text."""
    where: str | None = None
    """A predicate in CEL; see the module ``predicate``."""

    @property
    def is_whole(self) -> bool:
        """Whether each record of the ranges is selected."""
        return self.processes is None and self.keeps_histories

    @property
    def keeps_histories(self) -> bool:
        """Whether all entries of a process or none are selected. Only such a replay can be folded."""
        return not (self.kinds or self.actors or self.headers or self.where)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "offsets": {str(partition): list(ends) for partition, ends in sorted(self.offsets.items())},
            "processes": None if self.processes is None else sorted(self.processes),
            "kinds": sorted(self.kinds),
            "actors": sorted(self.actors),
            "headers": dict(sorted(self.headers.items())),
            "where": self.where,
        }


def parse_offsets(text: str) -> tuple[int, tuple[int | None, int | None]]:
    """Parse ``PARTITION:FIRST-LAST``, both inclusive and optional. Raises ``InvalidSetting``.

    >>> parse_offsets("3:100-199"), parse_offsets("0:7-"), parse_offsets("0:7")
    ((3, (100, 199)), (0, (7, None)), (0, (7, 7)))
    """
    match = re.fullmatch(r"(\d{1,9}):(?:(\d{1,18})|(\d{0,18})-(\d{0,18}))", text)
    if match is None:
        raise InvalidSetting(
            "offsets are PARTITION:FIRST-LAST", found=text[:100], hint="write 3:100-199, 3:100- or 3:-199"
        )
    partition, one, first, last = match.groups()
    if one is not None:
        return int(partition), (int(one), int(one))
    return int(partition), (int(first) if first else None, int(last) if last else None)


def ranges_of(
    selection: Selection, watermarks: Mapping[int, Watermarks], offset_at: Callable[[int, int], int | None]
) -> tuple[list[OffsetRange], list[Gap]]:
    """Return the range to read of each partition, within ``watermarks``, and the selected offsets that do not exist.

    Raises ``InvalidSetting`` for a partition that does not exist.
    """
    unknown = selection.offsets.keys() - watermarks.keys()
    if unknown:
        raise InvalidSetting("the source has no such partition", partition=min(unknown), partitions=len(watermarks))
    ranges: list[OffsetRange] = []
    gaps: list[Gap] = []
    for partition, mark in sorted(watermarks.items()):
        if not selection.offsets or partition in selection.offsets:
            offset_range = _range_of(selection, partition, mark, offset_at, gaps)
            if offset_range.start < offset_range.stop:
                ranges.append(offset_range)
    return ranges, gaps


def _range_of(
    selection: Selection,
    partition: int,
    mark: Watermarks,
    offset_at: Callable[[int, int], int | None],
    gaps: list[Gap],
) -> OffsetRange:
    first, last = selection.offsets.get(partition, (None, None))
    start, stop = 0 if first is None else first, mark.high if last is None else last + 1
    if selection.since_ms is not None:
        found = offset_at(partition, selection.since_ms)
        since = mark.high if found is None else found
        if since == mark.low > start:
            why = "the log begins here: earlier records of that time may have been removed (retention, trim)"
            gaps.append(Gap(partition, start, mark.low, why))
        start = max(start, since)
    elif start < mark.low:
        gaps.append(Gap(partition, start, min(mark.low, stop), "removed from the source (retention, trim)"))
        start = mark.low
    if selection.until_ms is not None:
        found = offset_at(partition, selection.until_ms)
        stop = min(stop, mark.high if found is None else found)
    if stop > mark.high:
        gaps.append(Gap(partition, max(start, mark.high), stop, "not yet in the source when the replay started"))
    return OffsetRange(partition, max(start, mark.low), min(stop, mark.high))
