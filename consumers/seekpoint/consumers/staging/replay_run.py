"""One run of a replay before it copies: what is refused, what is read, how it is laid out, what a former run left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.copier import Copier
from seekpoint.consumers.staging.copy.headers import HeaderRules, Provenance
from seekpoint.consumers.staging.copy.partitioning import Partitioner, choose
from seekpoint.consumers.staging.copy.seeding import Seeds
from seekpoint.consumers.staging.copy.selection import Gap, stretches_of
from seekpoint.consumers.staging.copy.source_codec import codec_of
from seekpoint.consumers.staging.copy.transform import Transform, Transformed
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import OffsetRange, Reading, ReplaySource, ReplayTarget, Sender
from seekpoint.consumers.staging.resume.progress_file import ReplayProgress
from seekpoint.consumers.staging.safety import name_of, refuse_target, refuse_timestamps
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.manifest import MANIFEST_KEY
from seekpoint.schemas.wire.codec import Codec

__all__ = ["ReplayRun"]


class ReplayRun:
    """One run's facts: both topics, what is read, how it is laid out. Raises ``ReplayRefused`` for what is not safe."""

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
        known: ReplayProgress | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self.plan = plan
        self._silence_max_s = silence_max_s
        self.facts, self.to = source.facts(), target.facts()
        refuse_target(self.facts, self.to, is_staging=is_staging, cluster=target_name.partition("/")[0])
        self._schemas = source.schemas()
        self.is_journal = MANIFEST_KEY in self._schemas
        self.partitioner: Partitioner = choose(
            plan.partitions,
            self.facts.partitions,
            self.to.partitions,
            keys_change=bool(plan.prefix) or plan.masks is not None,
            is_journal=self.is_journal,
        )
        if isinstance(target, CaptureTarget):
            target.renumbers = not self.partitioner.keeps
        self.headers = HeaderRules(plan.strip_headers)
        self.progress = self._fresh(job) if known is None else self._same(known)
        self.stretches = self.progress.stretches
        self.gaps = [Gap(*gap) for gap in self.progress.gaps]
        self.provenance = Provenance(self.progress.job, name_of(self.facts), name_of(self.to))
        refuse_timestamps(self.to, *_times(source, self.stretches), time.time_ns() // 1_000_000)

    def _fresh(self, job: str) -> ReplayProgress:
        source = self._source
        stretches, gaps = stretches_of(self.plan.selection, source.marks(), source.offset_at)
        return ReplayProgress(
            job=job,
            plan=self.plan.to_dict(),
            source=f"{name_of(self.facts)} {self.facts.topic_id}",
            target=f"{name_of(self.to)} {self.to.topic_id}",
            stretches=stretches,
            gaps=[list(gap) for gap in gaps],
            target_start={partition: mark.high for partition, mark in self._target.marks().items()},
        )

    def _same(self, known: ReplayProgress) -> ReplayProgress:
        """The progress of a former run, if it is of the same plan and the same topics."""
        found = (f"{name_of(self.facts)} {self.facts.topic_id}", f"{name_of(self.to)} {self.to.topic_id}")
        if (known.source, known.target) != found:
            raise ReplayRefused(
                "the progress file is of other topics, or one of them was made anew",
                expected=f"{known.source} into {known.target}",
                found=" into ".join(found),
                hint="remove the progress file to start anew",
            )
        plan = {**self.plan.to_dict(), "pace": None}
        if {**known.plan, "pace": None} != plan:
            raise ReplayRefused(
                "the progress file is of another plan", hint="give the same options again, or remove it to start anew"
            )
        return known

    def codec(self) -> Codec:
        """Decodes the source's entries."""
        return codec_of(self._schemas, self._source.schemas)

    def treatment(self, on_masked: Callable[[Any, Transformed], None] | None) -> Transform | None:
        """What is done with each record; None: nothing."""
        plan = self.plan
        if plan.is_plain:
            return None
        return Transform(
            plan.selection, self.headers, self.codec(), masks=plan.masks, prefix=plan.prefix, on_masked=on_masked
        )

    def seeds(self, treatment: Transform | None) -> Seeds:
        """The states that processes start from. Raises ``ReplayRefused`` if the source is no journal."""
        codec = self.codec()
        if not self.is_journal:
            raise ReplayRefused("only processes of a journal can be seeded", topic=self.facts.topic)
        return Seeds(
            source=self._source,
            codec=codec,
            treatment=treatment or Transform(self.plan.selection, self.headers, codec),
            partitioner=self.partitioner,
            provenance=self.provenance,
            stretches=self.stretches,
            processes=self.plan.selection.processes,
            partitions=self.facts.partitions,
            silence_max_s=self._silence_max_s,
        )

    def copier(self, stretches: Sequence[OffsetRange], reading: Reading, sender: Sender, **more: Any) -> Copier:
        """What copies these stretches as this run lays them out; further keywords are its constructor's."""
        laid = self.partitioner, self.provenance
        return Copier(
            stretches, reading, sender, *laid, headers=self.headers, silence_max_s=self._silence_max_s, **more
        )


def _times(source: ReplaySource, stretches: Sequence[OffsetRange]) -> tuple[int | None, int | None]:
    """The times of the first and the last record of the stretches, as far as a quick look tells."""
    stamps: list[int] = []
    for first in (True, False):
        wanted = stretches if first else [each._replace(start=each.stop - 1) for each in stretches]
        reading = source.read(wanted)
        seen: set[int] = set()
        deadline = time.monotonic() + 5.0
        try:
            while seen < reading.unfinished() | seen and time.monotonic() < deadline:
                for message in reading.take(1, 0.1):
                    seen.add(message.partition())
                    stamps.append(message.timestamp()[1])
                if seen >= {each.partition for each in wanted}:
                    break
        finally:
            reading.close()
    real = [stamp for stamp in stamps if stamp > 0]
    return (min(real), max(real)) if real else (None, None)
