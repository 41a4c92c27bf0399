"""Run a local cluster without Docker; create, audit and restore the topics of a journal.

>>> from seekpoint.compose import LocalCluster, create_topics
"""

from seekpoint.compose.creation import check_topics, check_topics_sync, create_topics, create_topics_sync
from seekpoint.compose.local_cluster import LocalCluster
from seekpoint.compose.restoring import restore_manifest_sync, save_manifest_sync, saved_records
from seekpoint.compose.server_processes import PartStatus
from seekpoint.compose.topic_audit import TopicFinding

__all__ = [
    "LocalCluster",
    "PartStatus",
    "TopicFinding",
    "check_topics",
    "check_topics_sync",
    "create_topics",
    "create_topics_sync",
    "restore_manifest_sync",
    "save_manifest_sync",
    "saved_records",
]
