"""``seekpoint lag``: show how far the view and the checkpoints are behind the log."""

from __future__ import annotations

from dataclasses import asdict

from seekpoint.console.render.output import emit_json, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, Wide
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.facts.partition_lag import PartitionLag, lags

_COLUMNS = (
    Column("partition", right=True),
    *(Column(title, right=True, wide=True) for title in ("log start", "log end", "applied", "floor")),
    *(Column(title, right=True) for title in ("behind", "unsaved")),
    *(Column(title, right=True, wide=True) for title in ("behind s", "unsaved s")),
    Column("view", wraps=True),
)


def lag(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> None:
    """Show how far the view and the floor are behind the log. No projector has to run."""
    found = lags(target)
    if json:
        behind = None if any(one.behind is None for one in found) else sum(one.behind or 0 for one in found)
        partitions = [asdict(one) for one in found]
        emit_json({"journal": target.settings.journal, "behind": behind, "partitions": partitions})
    else:
        emit_table(_COLUMNS, [_row(one) for one in found], wide=wide)
        if any(one.behind or one.unsaved for one in found) and not _is_projected(target):
            say("no projector has a partition now: start one (seekpoint serve projector), or start it again")


def _is_projected(target: CommandTarget) -> bool:
    """Return whether a projector has partitions, or nobody can tell."""
    from seekpoint.schemas.errors import SeekpointError

    try:
        return any(one.partitions for one in target.log.group_members() if one.role == "projector")
    except SeekpointError:
        return True


def _row(one: PartitionLag) -> list[object]:
    numbers = (one.log_start, one.log_end, one.applied, one.floor, one.behind, one.unsaved)
    shown = ["-" if number is None else number for number in numbers]
    ages = ["-" if age_s is None else f"{age_s:.1f}" for age_s in (one.behind_s, one.unsaved_s)]
    return [one.partition, *shown, *ages, one.problem or "ok"]
