"""The local cluster as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekpoint.compose import LocalCluster, PartStatus


def cluster_facts(cluster: LocalCluster, parts: list[PartStatus] | None = None) -> dict[str, Any]:
    """Return the cluster as plain data, for JSON."""
    return {
        "directory": str(cluster.directory),
        "bootstrap_servers": cluster.bootstrap_servers,
        "redis_url": cluster.redis_url,
        "parts": [asdict(part) for part in (cluster.status() if parts is None else parts)],
    }
