"""``seekpoint lag``: how far the view and the checkpoints are behind the log, a partition a row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from seekpoint.console.command import AsJson, command
from seekpoint.console.render.output import Column, emit_json, emit_table
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.view.view_store import ViewMeta, ViewStore
    from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["PartitionLag", "lag_of", "lags", "register"]

_COLUMNS = (
    *(Column(title, right=True) for title in ("partition", "log start", "log end", "applied", "behind")),
    *(Column(title, right=True) for title in ("floor", "unsaved")),
    Column("view", wraps=True),
)


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


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    command(app, "lag")(lag)


def lag(target: CommandTarget, json: AsJson = False) -> None:
    """Show how far the view and the floor are behind the log. Needs no projector."""
    found = lags(target)
    if json:
        behind = None if any(one.behind is None for one in found) else sum(one.behind or 0 for one in found)
        partitions = [asdict(one) for one in found]
        emit_json({"journal": target.settings.journal, "behind": behind, "partitions": partitions})
    else:
        emit_table(_COLUMNS, [_row(one) for one in found])


def lags(target: CommandTarget) -> list[PartitionLag]:
    """Every partition's lag. A view that cannot be used is a fact, no error."""
    from seekpoint.console.commands.checkpoints import newest_floor

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


def _row(one: PartitionLag) -> list[object]:
    numbers = (one.log_start, one.log_end, one.applied, one.behind, one.floor, one.unsaved)
    return [one.partition, *("-" if number is None else number for number in numbers), one.problem or "ok"]
