"""``seekpoint status``: show the parts of the local cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import emit_json
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import home

if TYPE_CHECKING:
    from seekpoint.compose import PartStatus
from seekpoint.console.render.cluster_facts import cluster_facts
from seekpoint.console.services.arguments.options import AsJson, Directory, Wide

_COLUMNS = (Column("part"), Column("address"), Column("pid", right=True), Column("answers"))


def status(directory: Directory = None, wide: Wide = False, json: AsJson = False) -> int:
    """Show the parts of the local cluster. Exits with 1 if a part does not answer, 3 if no cluster runs."""
    from seekpoint.compose import LocalCluster

    cluster = LocalCluster.attach(directory or home())
    parts = cluster.status()
    if json:
        emit_json(cluster_facts(cluster, parts))
    else:
        emit_table(_COLUMNS, [_row(part) for part in parts], wide=wide)
    return 0 if all(part.answers for part in parts) else EXIT_FAULT


def _row(part: PartStatus) -> list[object]:
    return [part.name, part.address, part.pid or "-", "yes" if part.answers else "no"]
