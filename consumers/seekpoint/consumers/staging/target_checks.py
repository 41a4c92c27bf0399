"""The checks of a replay's target before anything is written."""

from __future__ import annotations

from seekpoint.consumers.staging.replay_ports import ReplayTopicFacts
from seekpoint.schemas.errors import ReplayRefused

_UNLIMITED = -1


def qualified_name(facts: ReplayTopicFacts) -> str:
    """Return ``CLUSTER_ID/TOPIC``, which does not depend on the names of cluster profiles."""
    return f"{facts.cluster_id}/{facts.topic}"


def check_target(source: ReplayTopicFacts, target: ReplayTopicFacts, *, is_staging: bool, cluster: str) -> None:
    """Raise ``ReplayRefused`` for a target that is not staging, is the source, or sets its own times."""
    if not is_staging:
        raise ReplayRefused(
            "the target's cluster is not marked as staging",
            cluster=cluster,
            topic=target.topic,
            hint=f"if it is a staging cluster, set it in seekpoint.toml: [clusters.{cluster}] staging = true",
        )
    if (source.cluster_id, source.topic_id) == (target.cluster_id, target.topic_id):
        raise ReplayRefused(
            "the target is the source", cluster_id=target.cluster_id, topic=target.topic, topic_id=target.topic_id
        )
    if target.config.get("message.timestamp.type", "CreateTime") != "CreateTime":
        raise ReplayRefused(
            "the target stamps records with the time of their arrival: the original times would be lost",
            topic=target.topic,
            hint="set message.timestamp.type=CreateTime on it",
        )


def check_timestamps(target: ReplayTopicFacts, oldest_ms: int | None, newest_ms: int | None, now_ms: int) -> None:
    """Raise ``ReplayRefused`` for a target that would refuse records of these times, or delete them at once."""
    if oldest_ms is None or newest_ms is None:
        return
    config = target.config
    retention = int(config.get("retention.ms", _UNLIMITED))
    if "delete" in config.get("cleanup.policy", "delete") and retention >= 0 and oldest_ms < now_ms - retention:
        raise ReplayRefused(
            "the target would delete the oldest records at once: they are older than its retention",
            topic=target.topic,
            oldest_ms=oldest_ms,
            retention_ms=retention,
            hint="raise retention.ms of the target (-1 keeps everything), or select newer records",
        )
    for name, distance in (("before", now_ms - oldest_ms), ("after", newest_ms - now_ms)):
        limit = int(config.get(f"message.timestamp.{name}.max.ms", 2**63 - 1))
        if distance > limit:
            raise ReplayRefused(
                f"the target refuses records of these times (message.timestamp.{name}.max.ms)",
                topic=target.topic,
                distance_ms=distance,
                limit_ms=limit,
                hint="raise that setting of the target",
            )
