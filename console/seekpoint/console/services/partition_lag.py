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

_FIRST_LOOK = 256
_WIDER = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition: its log, what its view has applied, and its floor. All are offsets or numbers of them."""

    partition: int
    log_start: int
    log_end: int
    applied: int | None
    """None: no view that could be used. -1: a view, and nothing applied yet."""
    behind: int | None
    """Offsets that the view has not applied."""
    floor: int | None
    """None: no projector has published one."""
    unsaved: int | None
    """Offsets from the floor on: what a recovery from the oldest checkpoints reads at most."""
    problem: str | None
    """Why the view cannot be used."""


def lags(target: CommandTarget) -> list[PartitionLag]:
    """Every partition's lag. A view that cannot be used is a fact, no error."""

    found = []
    for partition in range(target.log.partitions):
        meta, problem = look_at_view(target.view, partition)
        marks = target.log.watermarks(partition)  # after the view was asked: what it has applied lies below the end
        floor = newest_floor(target.checkpoints, partition)
        topic_id = target.log.topic_id
        known = floor is not None and floor.topic_id == topic_id
        offset = floor.offset if floor is not None and known else None
        found.append(lag_of(partition, marks, meta, problem, offset, topic_id))
    return found


def look_at_view(view: ViewStore | None, partition: int) -> tuple[ViewMeta | None, str | None]:
    """The partition's view, or why there is none."""
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
    """The facts as they are shown. Pure."""
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
    """The partition's newest floor, read from its end backwards: every transaction of a projector writes one."""
    from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor

    stop = reader.stable_end(partition)
    for start in _starts(stop):
        floors = [value for _, key, value in reader.records(partition, start, stop) if key == FLOOR_KEY and value]
        if floors:
            return Floor.from_bytes(floors[-1])
        stop = start
    return None


def _starts(end: int) -> Iterator[int]:
    """Where to begin to look, further back each time."""
    width = _FIRST_LOOK
    start = end
    while start > 0:
        start = max(0, start - width)
        yield start
        width *= _WIDER
