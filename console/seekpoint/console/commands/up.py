"""``seekpoint up | down | status``: the local cluster, which outlives the command and the shell."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.command import AsJson, command
from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import Column, emit, emit_json, emit_table, say
from seekpoint.console.render.progress import Activity
from seekpoint.console.services.target import HOME_VARIABLE, home

if TYPE_CHECKING:
    from seekpoint.compose import LocalCluster, PartStatus

__all__ = ["register"]

Directory = Annotated[
    Path | None,
    typer.Option(
        "--directory", metavar="DIR", help=f"Where its data is. Default: ${HOME_VARIABLE}, else .seekpoint here."
    ),
]
Brokers = Annotated[
    int | None, typer.Option("--brokers", metavar="1|3", help="Default: as many as it has, 1 for a new one.")
]

_COLUMNS = (Column("part"), Column("address"), Column("pid", right=True), Column("answers"))


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    command(app, "up")(up)
    command(app, "down")(down)
    command(app, "status")(status)


def up(brokers: Brokers = None, directory: Directory = None, json: AsJson = False) -> None:
    """Start a Kafka and a Redis on this machine. Prints what points programs at them."""
    from seekpoint.compose import LocalCluster
    from seekpoint.compose.directory import ClusterDirectory

    place = directory or home()
    state = ClusterDirectory(place).read() if place.is_dir() else None
    count = brokers or (len(state.brokers) if state else 1)
    if count not in (1, 3):
        raise typer.BadParameter("a local cluster has 1 or 3 brokers", param_hint="--brokers")
    was_up = _runs(place)
    with Activity() as activity:
        cluster = LocalCluster.start_detached(place, count, progress=activity)
    _keep_out_of_git(cluster.directory)
    if json:
        emit_json({**facts(cluster), "started": not was_up})
        return
    say(f"the local cluster {'was up already' if was_up else 'is up'}: {cluster.directory}")
    for line in exports(cluster):
        emit(line)
    for line in _advice(directory):
        say(line)


def down(directory: Directory = None) -> None:
    """Stop the local cluster. Its data stays; ``up`` goes on with it."""
    from seekpoint.compose import LocalCluster
    from seekpoint.schemas.errors import ClusterFailed

    place = directory or home()
    try:
        cluster = LocalCluster.attach(place)
    except ClusterFailed as error:
        if (place / "cluster.json").exists() and error.facts.get("file"):
            raise
        say(f"no local cluster runs in {place}")
        return
    data = cluster.directory
    cluster.stop()
    say(f"stopped; its data stays in {data}")


def status(directory: Directory = None, json: AsJson = False) -> int:
    """Show the local cluster's parts. Exits with 1 if one does not answer, 3 if none runs."""
    from seekpoint.compose import LocalCluster

    cluster = LocalCluster.attach(directory or home())
    parts = cluster.status()
    if json:
        emit_json(facts(cluster, parts))
    else:
        emit_table(_COLUMNS, [_row(part) for part in parts])
    return 0 if all(part.answers for part in parts) else EXIT_FAULT


def facts(cluster: LocalCluster, parts: list[PartStatus] | None = None) -> dict[str, Any]:
    """The cluster as plain data, for JSON."""
    return {
        "directory": str(cluster.directory),
        "bootstrap_servers": cluster.bootstrap_servers,
        "redis_url": cluster.redis_url,
        "parts": [asdict(part) for part in (cluster.status() if parts is None else parts)],
    }


def exports(cluster: LocalCluster) -> list[str]:
    """What a shell evaluates to point programs at the cluster."""
    return [
        f"export SEEKPOINT_BOOTSTRAP_SERVERS={cluster.bootstrap_servers}",
        f"export SEEKPOINT_REDIS_URL={cluster.redis_url}",
    ]


def _row(part: PartStatus) -> list[object]:
    return [part.name, part.address, part.pid or "-", "yes" if part.answers else "no"]


def _advice(directory: Path | None) -> list[str]:
    if directory is not None and directory.absolute() != home().absolute():
        finds = f"seekpoint finds it with SEEKPOINT_HOME={directory.absolute()}"
    else:
        finds = "seekpoint finds it by itself in this directory"
    return [
        f'{finds}; for other programs: the lines above, or eval "$(seekpoint up)"',
        "next: seekpoint topics create; to stop it: seekpoint down",
    ]


def _runs(place: Path) -> bool:
    from seekpoint.compose import LocalCluster
    from seekpoint.schemas.errors import ClusterFailed

    try:
        return all(part.answers for part in LocalCluster.attach(place).status())
    except ClusterFailed:
        return False


def _keep_out_of_git(directory: Path) -> None:
    """Nobody wants a broker's segments in a commit."""
    ignore = directory / ".gitignore"
    if directory.name == ".seekpoint" and not os.path.lexists(ignore):
        from seekpoint.schemas.config.private_files import write_private

        write_private(ignore, "*\n")
