"""The clusters that a replay knows, the place where it saves its progress, and how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.staging import Plan
    from seekpoint.consumers.staging.copy.copy_stats import CopyStats
    from seekpoint.consumers.staging.replay_ports import OffsetRange
    from seekpoint.schemas.config.cluster_profiles import Cluster


def replay_clusters(target: CommandTarget) -> Mapping[str, Cluster]:
    """Return the cluster profiles. ``default`` is the cluster that other commands use."""
    from seekpoint.schemas.config.cluster_profiles import DEFAULT_CLUSTER, Cluster, load_clusters

    return {**load_clusters(target.config), DEFAULT_CLUSTER: Cluster(name=DEFAULT_CLUSTER, settings=target.settings)}


def replay_progress_file(plan: Plan, source: str, into: str) -> Path | None:
    """Return the progress file. Its name derives from the options, so the same replay finds it again."""
    from seekpoint.console.services.arguments.target import home

    if into.endswith(".spk"):
        return None
    from seekpoint.consumers.staging.capture.new_file import writing
    from seekpoint.schemas.config.private_files import private_directory

    file = home() / f"replay-{plan.digest(source, into)}.json"
    with writing("the progress file", file):
        private_directory(home())
    return file


def offsets_copied(stats: CopyStats, ranges: Sequence[OffsetRange]) -> tuple[int, int]:
    """Return how many offsets were copied, and of how many: the only total known in advance."""
    done = sum(max(0, stats.positions.get(each.partition, each.start) - each.start) for each in ranges)
    return done, sum(each.stop - each.start for each in ranges)
