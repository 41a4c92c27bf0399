"""The replay: a topic's records into a staging topic (or a file), exactly, safely, at any speed.

    plan ── refuse ── resume? ── seed ── copy, generation by generation ── read back ── compare ── audit

The source is assigned by hand, read committed, and nothing is ever written to its cluster.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.control import Control
from seekpoint.consumers.staging.copy.comparison import OffsetMap, read_back
from seekpoint.consumers.staging.copy.copy_stats import CopyStats, Settled
from seekpoint.consumers.staging.copy.dry_run_samples import Samples
from seekpoint.consumers.staging.copy.senders import Nowhere
from seekpoint.consumers.staging.copy.tallies import compare
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.copy.whole import whole
from seekpoint.consumers.staging.places import RecordLocation
from seekpoint.consumers.staging.replay_audit import audit_entry
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplaySource, ReplayTarget
from seekpoint.consumers.staging.replay_report import ReplayReport, estimate, not_foldable, notes_of
from seekpoint.consumers.staging.replay_run import ReplayRun
from seekpoint.consumers.staging.resume.progress_file import ProgressFile, ReplayProgress
from seekpoint.consumers.staging.resume.resumption import Delivered, stand_still
from seekpoint.schemas.config.cluster_profiles import Cluster, load_clusters
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable, ReplayRefused
from seekpoint.schemas.log.manifest import MANIFEST_KEY

__all__ = ["Replay"]

OnProgress = Callable[[CopyStats, Sequence[OffsetRange]], None]

_SETTLE_S = 1.0
_PACED_LINGER_MS, _FAST_LINGER_MS = 0.5, 20.0


class Replay:
    """One replay from one source into one target. Blocks: under asyncio, ``await asyncio.to_thread(replay.run)``.

    ``pause``, ``resume`` and ``stop`` may be called from any thread. With a ``progress`` file a replay that was
    stopped, or died, goes on when it is made again with the same plan and ``run`` again. An ``offset_map`` that is
    there already is ``ReplayRefused``, unless ``overwrite``; the new one appears when source and target were compared.

    >>> from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
    >>> source, target = MemoryTopic(2, cluster_id="prod"), MemoryTopic(2, cluster_id="staging")
    >>> source.append(1, b"case-17", b"any bytes", timestamp_ms=1_700_000_000_000)
    0
    >>> report = Replay(source, target).run()
    >>> report.replayed, report.checked, target.records()[0].value()
    (1, True, b'any bytes')
    """

    def __init__(
        self,
        source: ReplaySource,
        target: ReplayTarget,
        plan: Plan | None = None,
        *,
        names: tuple[str, str] = ("source", "target"),
        is_staging: bool = True,
        job: str | None = None,
        progress: str | Path | None = None,
        offset_map: str | Path | None = None,
        overwrite: bool = False,
        settle_s: float = _SETTLE_S,
        silence_max_s: float = 60.0,
    ) -> None:
        self.plan = plan or Plan()
        self.control = Control()
        self._source = source
        self._target = target
        self._names = names
        self._is_staging = is_staging
        self._job = job or f"replay-{uuid4().hex[:12]}"
        resumable = progress is not None and not isinstance(target, CaptureTarget)  # a file is begun anew
        self._file = ProgressFile(Path(progress) if progress is not None and resumable else None)
        self._map = OffsetMap(None if offset_map is None else Path(offset_map), overwrite=overwrite)
        self._settle_s = settle_s
        self._silence_max_s = silence_max_s

    @classmethod
    def connect(
        cls,
        source: str,
        target: str,
        plan: Plan | None = None,
        *,
        clusters: Mapping[str, Cluster] | None = None,
        offset_map: str | Path | None = None,
        overwrite: bool = False,
        **more: Any,
    ) -> Replay:
        """A replay between ``CLUSTER/TOPIC`` (or ``FILE.spk``) and another one, by the profiles of ``seekpoint.toml``.

        ``clusters`` are used instead of those. Further keywords are the constructor's. Raises ``InvalidSetting`` for a
        cluster without a profile, ``ReplayRefused`` for a file that is there already, unless ``overwrite``, and for a
        topic to be overwritten.
        """
        from seekpoint.consumers.staging.kafka_replay import (  # Kafka's client, for who replays on it
            open_source,
            open_target,
        )

        if overwrite and offset_map is None and RecordLocation.parse(target).file is None:
            raise ReplayRefused(
                "only a file is overwritten, never a topic", target=target, hint="leave --overwrite out"
            )
        clusters = load_clusters() if clusters is None else clusters
        opened = open_source(source, clusters)
        to, is_staging = open_target(target, opened, clusters, overwrite=overwrite)
        more |= {"offset_map": offset_map, "overwrite": overwrite}
        return cls(opened, to, plan, names=(source, target), is_staging=is_staging, **more)

    # --- what can be done -----------------------------------------------------------------------------------------
    def dry_run(self, on_progress: OnProgress = lambda flow, stretches: None) -> ReplayReport:
        """Read, select and mask everything, and write nothing. Raises what ``run`` would refuse."""
        trip = self._trip()
        samples = Samples(trip.codec())
        began = time.monotonic()
        flow = CopyStats()
        treatment = trip.treatment(samples.keep)
        reading = self._source.read(trip.stretches)
        try:
            copier = trip.copier(
                trip.stretches,
                reading,
                Nowhere(),
                treatment=treatment,
                control=self.control,
                flow=flow,
                on_progress=lambda flow: on_progress(flow, trip.stretches),
            )
            if self.plan.seeded:
                trip.seeds(treatment).send(Nowhere(), flow, None)
            complete = copier.run()
        finally:
            reading.close()
        took = time.monotonic() - began
        return self._report(trip, flow, treatment, took, complete=complete, samples=samples)

    def run(self, on_progress: OnProgress = lambda flow, stretches: None) -> ReplayReport:
        """Replay, compare, and report. Raises ``ReplayRefused`` before anything was written, ``ReplayMismatch`` if the
        target does not hold what was sent, ``JournalUnavailable`` if a cluster does not answer (run it again).
        """
        try:
            return self._run(on_progress)
        finally:
            self._map.close()
            self._file.close()

    def pause(self) -> None:
        """Send nothing more until ``resume``."""
        self.control.pause()

    def resume(self) -> None:
        """Go on after ``pause``."""
        self.control.resume()

    def stop(self) -> None:
        """End soon, in order: what was sent is acknowledged and noted. ``run`` returns an incomplete report."""
        self.control.stop()

    def close(self) -> None:
        """Give up connections; idempotent."""
        self._source.close()
        self._target.close()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- how ------------------------------------------------------------------------------------------------------
    def _trip(self, known: ReplayProgress | None = None) -> ReplayRun:
        return ReplayRun(
            self._source,
            self._target,
            self.plan,
            self._job,
            target_name=self._names[1],
            is_staging=self._is_staging,
            silence_max_s=self._silence_max_s,
            known=known,
        )

    def _run(self, on_progress: OnProgress) -> ReplayReport:
        known = self._file.load()
        trip = self._trip(known)
        progress = trip.progress
        if progress.done:
            raise ReplayRefused(
                "this replay was done before",
                job=progress.job,
                path=str(self._file.path),
                hint="remove the progress file to replay the same again",
            )
        self._map.begin()
        self._file.save(progress)
        self._put_schemas()
        self._audit(trip, "started" if known is None else "resumed")
        flow = CopyStats(tallies=progress.tallies.copy(), positions=dict(progress.settled))
        for name, count in progress.counters.items():
            setattr(flow, name, count)
        delivered = None if known is None else self._delivered(progress)
        treatment = trip.treatment(None)
        began = time.monotonic()
        complete = progress.copied or self._copy(trip, flow, treatment, delivered, on_progress)
        took = time.monotonic() - began
        if complete:
            progress.copied = True
            self._file.save(progress)
            arrivals = read_back(self._target, progress.target_start, progress.job, self._map)
            compare(progress.tallies, arrivals)
            self._map.finish()
            progress.done = True
            self._file.save(progress)
        report = self._report(trip, flow, treatment, took, complete=complete)
        self._audit(trip, "finished" if complete else "stopped", report)
        return report

    def _copy(
        self,
        trip: ReplayRun,
        flow: CopyStats,
        treatment: Transform | None,
        delivered: Delivered | None,
        on_progress: OnProgress,
    ) -> bool:
        progress = trip.progress
        sender = self._target.sender(linger_ms=_PACED_LINGER_MS if self.plan.pace.is_paced else _FAST_LINGER_MS)
        rest = (each._replace(start=flow.positions.get(each.partition, each.start)) for each in trip.stretches)
        left = [each for each in rest if each.start < each.stop]
        reading = self._source.read(left)

        known = dict(progress.tail or progress.target_start)

        def tail() -> dict[int, int]:
            """Where the target ends; while it cannot say, where it did: reading too much of it is no harm."""
            nonlocal known
            with contextlib.suppress(JournalUnavailable):
                known = self._ends()
            return known

        def settled(now: Settled) -> None:
            progress.settled, progress.tallies, progress.counters = now.offsets, now.tallies, now.counters
            progress.tail = now.tail
            self._file.save(progress)

        try:
            if self.plan.seeded and not progress.seeded:
                trip.seeds(treatment).send(sender, flow, delivered)
                progress.seeded, progress.tallies, progress.counters = True, flow.tallies.copy(), flow.counters()
                self._file.save(progress)
            copier = trip.copier(
                left,
                reading,
                sender,
                treatment=treatment,
                pace=self.plan.pace,
                control=self.control,
                delivered=delivered,
                flow=flow,
                tail=tail if self._file.path is not None else dict,
                on_settled=settled,
                on_progress=lambda flow: on_progress(flow, trip.stretches),
            )
            complete = copier.run()
            progress.tallies = flow.tallies.copy()
            return complete
        finally:
            reading.close()
            sender.close()

    def _ends(self) -> dict[int, int]:
        return {partition: mark.high for partition, mark in self._target.marks().items()}

    def _delivered(self, progress: ReplayProgress) -> Delivered:
        """What the former run left in the target beyond what it noted."""
        delivered = Delivered(progress.job)
        ends = stand_still(self._ends, lambda: time.sleep(self._settle_s))
        starts = {**progress.target_start, **progress.tail}
        stretches = [OffsetRange(p, starts.get(p, 0), end) for p, end in sorted(ends.items()) if starts.get(p, 0) < end]
        silent = JournalMismatch("the target cannot be read", topic=self._names[1])
        for messages in whole(self._target.read(stretches), self._silence_max_s, silent):
            delivered.add(messages)
        return delivered

    def _put_schemas(self) -> None:
        """Entries are byte for byte the source's, so the target must know the schemas they were written with."""
        ours, theirs = self._source.schemas(), self._target.schemas()
        if MANIFEST_KEY not in ours:
            return
        if isinstance(self._target, CaptureTarget):
            self._target.put_schemas(ours)
        elif MANIFEST_KEY in theirs:
            missing = {key: value for key, value in ours.items() if key != MANIFEST_KEY and key not in theirs}
            if missing:
                self._target.put_schemas(missing)

    def _audit(self, trip: ReplayRun, what: str, report: ReplayReport | None = None) -> None:
        self._target.audit(*audit_entry(trip, self._names, what, report))

    def _report(
        self,
        trip: ReplayRun,
        flow: CopyStats,
        treatment: Transform | None,
        took: float,
        *,
        complete: bool,
        samples: Samples | None = None,
    ) -> ReplayReport:
        """``samples``: of a dry run."""
        dry_run = samples is not None
        left_out = {} if treatment is None else dict(treatment.counts)
        predicate = None if treatment is None else treatment.predicate
        return ReplayReport(
            job=trip.progress.job,
            source=self._names[0],
            target=self._names[1],
            dry_run=dry_run,
            complete=complete,
            checked=complete and not dry_run,
            read=flow.read,
            replayed=flow.tallies.records,
            sent=0 if dry_run else flow.sent,
            already_there=flow.already_there,
            seeded=flow.seeded,
            bytes=flow.tallies.bytes,
            left_out=left_out,
            gaps=(*trip.gaps, *flow.holes),
            missing_offsets=flow.missing_offsets,
            restamped=flow.restamped,
            not_foldable=not_foldable(self.plan, trip.stretches, left_out),
            lateness=flow.lateness.to_dict(),
            duration_s=round(took, 3),
            estimate_s=estimate(self.plan, flow, took) if dry_run else None,
            by_partition={at: (tally[0], tally[1]) for at, tally in sorted(flow.tallies.by_partition.items())},
            samples=() if samples is None else samples.kept,
            offset_map=None if dry_run or self._map.path is None else str(self._map.path),
            notes=notes_of(self.plan, flow, predicate, complete=complete),
        )
