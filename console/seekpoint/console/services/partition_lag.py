"""How far the view and the checkpoints of each partition are behind the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader, Floor
    from seekpoint.consumers.view.view_store import ViewMeta, ViewStore
    from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["PartitionLag", "lag_of", "lags", "newest_floor"]

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


def lags(target: CommandTarget) -> list[PartitionLag]:
    """Return the lag of every partition. An unusable view is reported in ``problem``, not raised."""

    found = []
    for partition in range(target.log.partitions):
        meta, problem = read_view_meta(target.view, partition)
        marks = target.log.watermarks(
            partition
        )  # read after the view, so the end is at least what the view has applied
        floor = newest_floor(target.checkpoints, partition)
        topic_id = target.log.topic_id
        known = floor is not None and floor.topic_id == topic_id
        offset = floor.offset if floor is not None and known else None
        found.append(lag_of(partition, marks, meta, problem, offset, topic_id))
    return found


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


def newest_floor(reader: CheckpointReader, partition: int) -> Floor | None:
    """Return the partition's newest floor. It is near the end: every transaction of a projector writes one."""
    from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor

    stop = reader.stable_end(partition)
    for start in _starts(stop):
        floors = [value for _, key, value in reader.records(partition, start, stop) if key == FLOOR_KEY and value]
        if floors:
            return Floor.from_bytes(floors[-1])
        stop = start
    return None


def _starts(end: int) -> Iterator[int]:
    """Yield start offsets, each further back."""
    width = _FIRST_WINDOW
    start = end
    while start > 0:
        start = max(0, start - width)
        yield start
        width *= _GROWTH
