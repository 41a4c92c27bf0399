"""One run of a replay: it checks the target, finds the offset ranges, and builds the parts that copy them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.copier import Copier
from seekpoint.consumers.staging.copy.full_read import end_offsets
from seekpoint.consumers.staging.copy.headers import HeaderRules, Provenance
from seekpoint.consumers.staging.copy.partitioning import Partitioner, choose_partitioner
from seekpoint.consumers.staging.copy.seeding import Seeder
from seekpoint.consumers.staging.copy.selection import Gap, ranges_of
from seekpoint.consumers.staging.copy.source_codec import codec_of
from seekpoint.consumers.staging.copy.transform import Transform, Transformed
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import (
    OffsetRange,
    RangeReader,
    ReplayMessage,
    ReplaySource,
    ReplayTarget,
    ReplayTopicFacts,
    Sender,
)
from seekpoint.consumers.staging.resume.progress_file import ReplayProgress
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.manifest import MANIFEST_KEY
from seekpoint.schemas.wire.codec import Codec

_UNLIMITED = -1


class ReplayRun:
    """The facts of one run: both topics, the ranges, the progress. Raises ``ReplayRefused`` if it would not be safe."""

    def __init__(
        self,
        source: ReplaySource,
        target: ReplayTarget,
        plan: Plan,
        job: str,
        *,
        target_name: str,
        is_staging: bool,
        silence_max_s: float,
        saved: ReplayProgress | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self.plan = plan
        self._silence_max_s = silence_max_s
        self.source_facts, self.target_facts = source.facts(), target.facts()
        check_target(self.source_facts, self.target_facts, is_staging=is_staging, cluster=target_name.partition("/")[0])
        self._schemas = source.schemas()
        self.is_journal = MANIFEST_KEY in self._schemas
        self.partitioner: Partitioner = choose_partitioner(
            plan.partitions,
            self.source_facts.partitions,
            self.target_facts.partitions,
            keys_change=bool(plan.prefix) or plan.masks is not None,
            is_journal=self.is_journal,
        )
        if isinstance(target, CaptureTarget):
            target.renumbers = not self.partitioner.keeps_partitions
        self.headers = HeaderRules(plan.strip_headers)
        self.progress = self._new_progress(job) if saved is None else self._checked(saved)
        self.ranges = self.progress.ranges
        self.gaps = [Gap(*gap) for gap in self.progress.gaps]
        names = qualified_name(self.source_facts), qualified_name(self.target_facts)
        self.provenance = Provenance(self.progress.job, *names)
        check_timestamps(self.target_facts, *_timestamps(source, self.ranges), time.time_ns() // 1_000_000)

    def _topics(self) -> tuple[str, str]:
        """Name source and target so that a topic that was created again has another name."""
        source, target = self.source_facts, self.target_facts
        return f"{qualified_name(source)} {source.topic_id}", f"{qualified_name(target)} {target.topic_id}"

    def _new_progress(self, job: str) -> ReplayProgress:
        source, target = self._topics()
        ranges, gaps = ranges_of(self.plan.selection, self._source.watermarks(), self._source.offset_at)
        return ReplayProgress(
            job=job,
            plan=self.plan.to_dict(),
            source=source,
            target=target,
            ranges=ranges,
            gaps=[list(gap) for gap in gaps],
            target_start=end_offsets(self._target),
        )

    def _checked(self, saved: ReplayProgress) -> ReplayProgress:
        """Return the saved progress. Raises ``ReplayRefused`` if its plan or its topics are others."""
        found = self._topics()
        if (saved.source, saved.target) != found:
            raise ReplayRefused(
                "the progress file belongs to other topics, or one of them was created again",
                expected=f"{saved.source} into {saved.target}",
                found=" into ".join(found),
                hint="remove the progress file to start over",
            )
        plan = {**self.plan.to_dict(), "pace": None}
        if {**saved.plan, "pace": None} != plan:
            raise ReplayRefused(
                "the progress file belongs to another plan",
                hint="give the same options again, or remove it to start over",
            )
        return saved

    def codec(self) -> Codec:
        """Return a decoder of the source's entries."""
        return codec_of(self._schemas, self._source.schemas)

    def transform(self, on_masked: Callable[[ReplayMessage, Transformed], None] | None) -> Transform | None:
        """Return what selects and changes the records; None if all are copied unchanged."""
        plan = self.plan
        if plan.is_plain:
            return None
        return Transform(
            plan.selection, self.headers, self.codec(), masks=plan.masks, prefix=plan.prefix, on_masked=on_masked
        )

    def seeder(self, transform: Transform | None) -> Seeder:
        """Return what sends the states that processes start from. Raises ``ReplayRefused`` if there is no journal."""
        codec = self.codec()
        if not self.is_journal:
            raise ReplayRefused("only processes of a journal can be seeded", topic=self.source_facts.topic)
        return Seeder(
            source=self._source,
            codec=codec,
            transform=transform or Transform(self.plan.selection, self.headers, codec),
            partitioner=self.partitioner,
            provenance=self.provenance,
            ranges=self.ranges,
            processes=self.plan.selection.processes,
            partitions=self.source_facts.partitions,
            silence_max_s=self._silence_max_s,
        )

    def copier(self, ranges: Sequence[OffsetRange], reader: RangeReader, sender: Sender, **more: Any) -> Copier:
        """Return the copier of these ranges. Further keywords are its constructor's."""
        parts = self.partitioner, self.provenance
        return Copier(ranges, reader, sender, *parts, headers=self.headers, silence_max_s=self._silence_max_s, **more)


def _timestamps(source: ReplaySource, ranges: Sequence[OffsetRange]) -> tuple[int | None, int | None]:
    """Return the oldest and newest time among the first and last records of the ranges, read within seconds."""
    stamps: list[int] = []
    for first in (True, False):
        wanted = ranges if first else [each._replace(start=each.stop - 1) for each in ranges]
        reader = source.read(wanted)
        seen: set[int] = set()
        deadline = time.monotonic() + 5.0
        try:
            while seen < reader.unfinished() | seen and time.monotonic() < deadline:
                for message in reader.take(1, 0.1):
                    seen.add(message.partition())
                    stamps.append(message.timestamp()[1])
                if seen >= {each.partition for each in wanted}:
                    break
        finally:
            reader.close()
    real = [stamp for stamp in stamps if stamp > 0]
    return (min(real), max(real)) if real else (None, None)


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
