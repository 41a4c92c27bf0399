"""The lag of each partition: how far its view and its checkpoints are behind the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader, Floor
    from seekpoint.consumers.view.view_store import ViewMeta, ViewStore
    from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["LagReader", "PartitionLag", "lag_of", "lags", "newest_floor"]

_FIRST_WINDOW = 256
_GROWTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The log of a partition, what its view has applied, and its floor, as offsets and numbers of offsets."""

    partition: int
    log_start: int
    log_end: int
    applied: int | None
    """None: there is no usable view. -1: the view has applied nothing yet."""
    behind: int | None
    """Offsets that the view has not applied."""
    floor: int | None
    """None: no projector has published a floor."""
    unsaved: int | None
    """Offsets from the floor on: the most that a recovery from a checkpoint reads."""
    problem: str | None
    """Why the view is unusable; None if it is usable."""
    behind_s: float | None = None
    """How long ago the oldest record was appended that the view has not applied; 0: it has applied all."""
    unsaved_s: float | None = None
    """How long ago the record at the floor was appended: the age of the checkpoints; 0: all entries are below it."""


def lags(target: CommandTarget) -> list[PartitionLag]:
    """Return the lag of every partition. An unusable view is reported in ``problem``, not raised."""
    return LagReader(target).read()


class LagReader:
    """Reads the lag of every partition, again and again. It reads only what is new since the last time. Blocks."""

    def __init__(self, target: CommandTarget, now_s: Callable[[], float] = time.time) -> None:
        self._target = target
        self._now_s = now_s
        self._floors: dict[int, tuple[int, Floor | None]] = {}
        """By partition: the end of the checkpoints that were read, and the newest floor below it."""
        self._times: dict[tuple[int, int], float] = {}
        """By partition and offset: when the first record there was appended."""

    def read(self) -> list[PartitionLag]:
        """Return the lag of every partition. An unusable view is reported in ``problem``, not raised."""
        found = [self._lag(partition) for partition in range(self._target.log.partitions)]
        asked = {place for one in found for place in _oldest(one)}
        self._times = {place: at_s for place, at_s in self._times.items() if place in asked}
        return found

    def _lag(self, partition: int) -> PartitionLag:
        target = self._target
        meta, problem = read_view_meta(target.view, partition)
        marks = target.log.watermarks(partition)  # after the view, so the end is at least what the view has applied
        topic_id, floor = target.log.topic_id, self._floor(partition)
        offset = floor.offset if floor is not None and floor.topic_id == topic_id else None
        found = lag_of(partition, marks, meta, problem, offset, topic_id)
        return replace(found, behind_s=self._age_s(found, found.applied, 1), unsaved_s=self._age_s(found, offset, 0))

    def _floor(self, partition: int) -> Floor | None:
        checkpoints = self._target.checkpoints
        stop = checkpoints.stable_end(partition)
        known, floor = self._floors.get(partition, (0, None))
        if stop != known:
            # After a topic was made anew it may be shorter: then nothing that is known counts.
            above = known if stop > known else 0
            floor = newest_floor(checkpoints, partition, stop, above) or (floor if above else None)
            self._floors[partition] = stop, floor
        return floor

    def _age_s(self, lag: PartitionLag, offset: int | None, step: int) -> float | None:
        """Return how long ago the first record at ``offset + step`` was appended; 0 if there is none."""
        if offset is None:
            return None
        start = max(offset + step, lag.log_start)
        if start >= lag.log_end:
            return 0.0
        place = lag.partition, start
        if place not in self._times:
            at_ms = self._appended_ms(lag.partition, start, lag.log_end)
            if at_ms is None:
                return 0.0
            self._times[place] = at_ms / 1000
        return max(0.0, round(self._now_s() - self._times[place], 3))

    def _appended_ms(self, partition: int, start: int, stop: int) -> int | None:
        from seekpoint.schemas.errors import JournalGap, LogTruncated

        try:
            for batch in self._target.log.read(partition, start, stop):
                for record in batch.records:
                    return record.timestamp_ms
        except (JournalGap, LogTruncated):  # it was trimmed or made anew meanwhile: the next look knows
            return None
        return None


def _oldest(lag: PartitionLag) -> Iterator[tuple[int, int]]:
    """Yield the places whose records are the oldest that the view and the checkpoints lack."""
    if lag.applied is not None:
        yield lag.partition, max(lag.applied + 1, lag.log_start)
    if lag.floor is not None:
        yield lag.partition, max(lag.floor, lag.log_start)


def read_view_meta(view: ViewStore | None, partition: int) -> tuple[ViewMeta | None, str | None]:
    """Return the metadata of the partition's view, or the reason why there is none."""
    from seekpoint.schemas.errors import ViewRefused, ViewUnavailable

    if view is None:
        return None, "the settings name no Redis"
    try:
        return view.meta(partition), None
    except (ViewRefused, ViewUnavailable) as exc:
        return None, exc.message


def lag_of(
    partition: int, marks: Watermarks, meta: ViewMeta | None, problem: str | None, floor: int | None, topic_id: str
) -> PartitionLag:
    """Compute the lag of a partition. Pure."""
    from seekpoint.consumers.recovery.base_finder import view_problem

    problem = problem or view_problem(meta, topic_id, marks)
    applied = meta.applied if meta is not None and problem is None else None
    return PartitionLag(
        partition=partition,
        log_start=marks.low,
        log_end=marks.high,
        applied=applied,
        behind=None if applied is None else marks.high - 1 - applied,
        floor=floor,
        unsaved=None if floor is None else max(0, marks.high - floor),
        problem=problem,
    )


def newest_floor(reader: CheckpointReader, partition: int, stop: int | None = None, above: int = 0) -> Floor | None:
    """Return the partition's newest floor. It is near the end: every transaction of a projector writes one.

    ``stop`` is the end of the checkpoints; with ``above`` only those from this position on are read.
    """
    from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor

    stop = reader.stable_end(partition) if stop is None else stop
    for start in _starts(stop, above):
        floors = [value for _, key, value in reader.records(partition, start, stop) if key == FLOOR_KEY and value]
        if floors:
            return Floor.from_bytes(floors[-1])
        stop = start
    return None


def _starts(end: int, least: int) -> Iterator[int]:
    """Yield start offsets, each further back, down to ``least``."""
    width = _FIRST_WINDOW
    start = end
    while start > least:
        start = max(least, start - width)
        yield start
        width *= _GROWTH
