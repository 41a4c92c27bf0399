"""``seekpoint up``: start the local cluster. It keeps running after the command and the shell end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import emit, emit_json, pasted, say
from seekpoint.console.render.progress import SetupBar
from seekpoint.console.services.arguments.target import home

if TYPE_CHECKING:
    from seekpoint.compose import LocalCluster
from seekpoint.console.render.cluster_facts import cluster_facts
from seekpoint.console.services.arguments.options import AsJson, Directory

__all__ = ["up"]


def up(
    brokers: Annotated[
        int | None, typer.Option("--brokers", metavar="1|3", help="Default: the cluster's number, 1 for a new one.")
    ] = None,
    directory: Directory = None,
    json: AsJson = False,
) -> None:
    """Start a Kafka and a Redis on this machine. Print the environment variables that select them."""
    from seekpoint.schemas.config.extras import require_extra

    require_extra("local", "the local cluster", "confluent_kafka")
    from seekpoint.compose import LocalCluster
    from seekpoint.compose.directory import ClusterDirectory
    from seekpoint.compose.setup_phases import DOWNLOADING, PREPARING, STARTING

    place = directory or home()
    state = ClusterDirectory(place).read() if place.is_dir() else None
    count = brokers or (len(state.brokers) if state else 1)
    if count not in (1, 3):
        raise typer.BadParameter("a local cluster has 1 or 3 brokers", param_hint="--brokers")
    was_up = _is_running(place)
    with SetupBar((DOWNLOADING, PREPARING, STARTING)) as bar:
        cluster = LocalCluster.start_detached(place, count, progress=bar)
    _keep_out_of_git(cluster.directory)
    if json:
        emit_json({**cluster_facts(cluster), "started": not was_up})
        return
    say(f"the local cluster {'is already running' if was_up else 'is running'}: {cluster.directory}")
    for line in exports(cluster):
        emit(line)
    for line in _advice(directory):
        say(line)


def exports(cluster: LocalCluster) -> list[str]:
    """Return the shell commands that point programs at the cluster."""
    return [
        f"export SEEKPOINT_BOOTSTRAP_SERVERS={cluster.bootstrap_servers}",
        f"export SEEKPOINT_REDIS_URL={cluster.redis_url}",
    ]


def _advice(directory: Path | None) -> list[str]:
    if directory is not None and directory.absolute() != home().absolute():
        finds = f"seekpoint finds it with SEEKPOINT_HOME={pasted(directory.absolute())}"
    else:
        finds = "seekpoint finds it by default in this directory"
    return [
        f'{finds}; for other programs use the lines above, or eval "$(seekpoint up)"',
        "next: seekpoint topics create; stop it with: seekpoint down",
    ]


def _is_running(place: Path) -> bool:
    from seekpoint.compose import LocalCluster
    from seekpoint.schemas.errors import ClusterFailed

    try:
        return all(part.answers for part in LocalCluster.attach(place).status())
    except ClusterFailed:
        return False


def _keep_out_of_git(directory: Path) -> None:
    """Write a .gitignore, so that broker data is not committed."""
    ignore = directory / ".gitignore"
    if directory.name == ".seekpoint" and not os.path.lexists(ignore):
        from seekpoint.schemas.config.private_files import write_private

        write_private(ignore, "*\n")
