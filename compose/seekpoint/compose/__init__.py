"""The surroundings of a journal: a local cluster without Docker, the topics and their audit."""

from seekpoint.compose.cluster import LocalCluster

__all__ = ["LocalCluster"]
