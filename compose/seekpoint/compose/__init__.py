"""Run a local cluster without Docker; create, audit and restore the topics of a journal.

>>> from seekpoint.compose import LocalCluster, create_topics
"""

from typing import TYPE_CHECKING

from seekpoint.schemas.late_names import late_names

if TYPE_CHECKING:
    from seekpoint.compose.creation import (
        check_topics,
        check_topics_sync,
        create_topics,
        create_topics_sync,
        raise_format_sync,
    )
    from seekpoint.compose.local_cluster import LocalCluster
    from seekpoint.compose.restoring import restore_manifest_sync, save_manifest_sync, saved_records
    from seekpoint.compose.server_processes import PartStatus
    from seekpoint.compose.topic_audit import TopicFinding
else:  # loaded at first use: a starting cluster loads the Kafka client while Java starts
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "LocalCluster": "seekpoint.compose.local_cluster",
            "PartStatus": "seekpoint.compose.server_processes",
            "TopicFinding": "seekpoint.compose.topic_audit",
            "check_topics": "seekpoint.compose.creation",
            "check_topics_sync": "seekpoint.compose.creation",
            "create_topics": "seekpoint.compose.creation",
            "create_topics_sync": "seekpoint.compose.creation",
            "raise_format_sync": "seekpoint.compose.creation",
            "restore_manifest_sync": "seekpoint.compose.restoring",
            "save_manifest_sync": "seekpoint.compose.restoring",
            "saved_records": "seekpoint.compose.restoring",
        },
    )

__all__ = [
    "LocalCluster",
    "PartStatus",
    "TopicFinding",
    "check_topics",
    "check_topics_sync",
    "create_topics",
    "create_topics_sync",
    "raise_format_sync",
    "restore_manifest_sync",
    "save_manifest_sync",
    "saved_records",
]
