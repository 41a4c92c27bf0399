"""``seekpoint down``: stop the local cluster."""

from __future__ import annotations

from seekpoint.console.render.output import emit_json, say
from seekpoint.console.services.arguments.options import AsJson, Directory
from seekpoint.console.services.arguments.target import home


def down(directory: Directory = None, json: AsJson = False) -> None:
    """Stop the local cluster. Its data is kept for the next ``up``."""
    from seekpoint.compose import LocalCluster
    from seekpoint.schemas.errors import ClusterFailed

    place = directory or home()
    try:
        cluster = LocalCluster.attach(place)
    except ClusterFailed as error:
        if (place / "cluster.json").exists() and error.file:
            raise
        if json:
            emit_json({"directory": str(place), "stopped": False})
        else:
            say(f"no local cluster runs in {place}")
        return
    data = cluster.directory
    cluster.stop()
    if json:
        emit_json({"directory": str(data), "stopped": True})
        return
    say(f"stopped; its data is kept in {data}")
