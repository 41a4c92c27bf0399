"""The replay of a topic into a staging topic or a file.

    plan ── check ── resume? ── seed ── copy ── read back ── compare ── audit

The source is read without a consumer group, committed records only. Nothing is written to its cluster.
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
from seekpoint.consumers.staging.copy.dry_run_samples import DryRunSamples
from seekpoint.consumers.staging.copy.full_read import end_offsets, read_between
from seekpoint.consumers.staging.copy.senders import DryRunSender
from seekpoint.consumers.staging.copy.tallies import compare
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.record_location import RecordLocation
from seekpoint.consumers.staging.replay_audit import audit_entry
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplaySource, ReplayTarget
from seekpoint.consumers.staging.replay_report import ReplayReport, estimate, not_foldable, notes_of
from seekpoint.consumers.staging.replay_run import ReplayRun
from seekpoint.consumers.staging.resume.delivered_records import DeliveredRecords, wait_for_stable_ends
from seekpoint.consumers.staging.resume.progress_file import ProgressFile, ReplayProgress
from seekpoint.schemas.config.cluster_profiles import Cluster, load_clusters
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable, ReplayRefused
from seekpoint.schemas.log.manifest import MANIFEST_KEY

OnProgress = Callable[[CopyStats, Sequence[OffsetRange]], None]

_SETTLE_S = 1.0
_PACED_LINGER_MS, _FAST_LINGER_MS = 0.5, 20.0


class Replay:
    """One replay from one source into one target. Blocks: under asyncio, ``await asyncio.to_thread(replay.run)``.

    Any thread may call ``pause``, ``resume`` and ``stop``. With a ``progress`` file, a replay that was stopped or
    killed continues when it is created with the same plan and ``run`` again. An existing ``offset_map`` raises
    ``ReplayRefused``, unless ``overwrite``; the new one appears once source and target were found equal. The audit has
    the ``actor`` who asked for it, and the ``reason``.

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
        actor: str | None = None,
        reason: str | None = None,
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
        self._asked_by = actor, reason
        self._is_staging = is_staging
        self._job = job or f"replay-{uuid4().hex[:12]}"
        resumable = progress is not None and not isinstance(target, CaptureTarget)  # a file is written from its start
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
        """Connect two of ``CLUSTER/TOPIC`` or ``FILE.spk``, by the profiles of ``seekpoint.toml`` or in ``clusters``.

        Further keywords are the constructor's. Raises ``InvalidSetting`` for a cluster without a profile, and
        ``ReplayRefused`` for an existing file without ``overwrite`` or a topic with it.
        """
        # Late, so that replays between other topics do not load Kafka's client.
        from seekpoint.consumers.staging.kafka_replay import open_source, open_target

        if overwrite and offset_map is None and RecordLocation.parse(target).file is None:
            raise ReplayRefused("--overwrite replaces files, never topics", target=target, hint="leave --overwrite out")
        clusters = load_clusters() if clusters is None else clusters
        source_topic = open_source(source, clusters)
        target_topic, is_staging = open_target(target, source_topic, clusters, overwrite=overwrite)
        more |= {"offset_map": offset_map, "overwrite": overwrite}
        return cls(source_topic, target_topic, plan, names=(source, target), is_staging=is_staging, **more)

    def dry_run(self, on_progress: OnProgress = lambda stats, ranges: None) -> ReplayReport:
        """Read, select and mask everything, and write nothing. Raises ``ReplayRefused`` where ``run`` would."""
        run = self._new_run()
        samples = DryRunSamples(run.codec())
        began = time.monotonic()
        stats = CopyStats()
        transform = run.transform(samples.add)
        reader = self._source.read(run.ranges)
        try:
            copier = run.copier(
                run.ranges,
                reader,
                DryRunSender(),
                transform=transform,
                control=self.control,
                stats=stats,
                on_progress=lambda stats: on_progress(stats, run.ranges),
            )
            if self.plan.seeded:
                run.seeder(transform).send(DryRunSender(), stats, None)
            complete = copier.run()
        finally:
            reader.close()
        took = time.monotonic() - began
        return self._report(run, stats, transform, took, complete=complete, samples=samples)

    def run(self, on_progress: OnProgress = lambda stats, ranges: None) -> ReplayReport:
        """Replay, compare, and report.

        Raises ``ReplayRefused`` before anything is written, ``ReplayMismatch`` if the target does not hold what was
        sent, and ``JournalUnavailable`` if a cluster does not answer (run it again).
        """
        try:
            return self._run(on_progress)
        finally:
            self._map.close()
            self._file.close()

    def pause(self) -> None:
        """Send no more records until ``resume``."""
        self.control.pause()

    def resume(self) -> None:
        """Continue after ``pause``."""
        self.control.resume()

    def stop(self) -> None:
        """Stop after all sent records are acknowledged and saved. ``run`` then returns an incomplete report."""
        self.control.stop()

    def close(self) -> None:
        """Close connections; idempotent."""
        self._source.close()
        self._target.close()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_run(self, saved: ReplayProgress | None = None) -> ReplayRun:
        return ReplayRun(
            self._source,
            self._target,
            self.plan,
            self._job,
            target_name=self._names[1],
            is_staging=self._is_staging,
            silence_max_s=self._silence_max_s,
            saved=saved,
        )

    def _run(self, on_progress: OnProgress) -> ReplayReport:
        saved = self._file.load()
        run = self._new_run(saved)
        progress = run.progress
        if progress.done:
            raise ReplayRefused(
                "this replay was done before",
                job=progress.job,
                path=str(self._file.path),
                hint="remove the progress file to repeat the replay",
            )
        self._map.begin()
        self._file.save(progress)
        self._put_schemas()
        self._audit(run, "started" if saved is None else "resumed")
        stats = CopyStats.resumed(progress.tallies, progress.settled, progress.counters)
        delivered = None if saved is None else self._delivered(progress)
        transform = run.transform(None)
        began = time.monotonic()
        complete = progress.copied or self._copy(run, stats, transform, delivered, on_progress)
        took = time.monotonic() - began
        if complete:
            progress.copied = True
            self._file.save(progress)
            arrivals = read_back(self._target, progress.target_start, progress.job, self._map)
            compare(progress.tallies, arrivals)
            self._map.finish()
            progress.done = True
            self._file.save(progress)
        report = self._report(run, stats, transform, took, complete=complete)
        self._audit(run, "finished" if complete else "stopped", report)
        return report

    def _copy(
        self,
        run: ReplayRun,
        stats: CopyStats,
        transform: Transform | None,
        delivered: DeliveredRecords | None,
        on_progress: OnProgress,
    ) -> bool:
        progress = run.progress
        sender = self._target.sender(linger_ms=_PACED_LINGER_MS if self.plan.pace.is_paced else _FAST_LINGER_MS)
        rest = (each._replace(start=stats.positions.get(each.partition, each.start)) for each in run.ranges)
        left = [each for each in rest if each.start < each.stop]
        reader = self._source.read(left)

        last_tail = dict(progress.tail or progress.target_start)

        def tail() -> dict[int, int]:
            """Return the target's end offsets, or the last known ones: a lower offset only costs a longer read."""
            nonlocal last_tail
            with contextlib.suppress(JournalUnavailable):
                last_tail = end_offsets(self._target)
            return last_tail

        def save(settled: Settled) -> None:
            progress.settled, progress.tail = settled.offsets, settled.tail
            progress.tallies, progress.counters = settled.tallies, settled.counters
            self._file.save(progress)

        try:
            if self.plan.seeded and not progress.seeded:
                run.seeder(transform).send(sender, stats, delivered)
                progress.seeded, progress.tallies, progress.counters = True, stats.tallies.copy(), stats.counters()
                self._file.save(progress)
            copier = run.copier(
                left,
                reader,
                sender,
                transform=transform,
                pace=self.plan.pace,
                control=self.control,
                delivered=delivered,
                stats=stats,
                tail=tail if self._file.path is not None else dict,
                on_settled=save,
                on_progress=lambda stats: on_progress(stats, run.ranges),
            )
            complete = copier.run()
            progress.tallies = stats.tallies.copy()
            return complete
        finally:
            reader.close()
            sender.close()

    def _delivered(self, progress: ReplayProgress) -> DeliveredRecords:
        """Find the records that the former run delivered after it last saved its progress."""
        delivered = DeliveredRecords(progress.job)
        ends = wait_for_stable_ends(lambda: end_offsets(self._target), lambda: time.sleep(self._settle_s))
        starts = {**progress.target_start, **progress.tail}
        timeout = JournalMismatch("the target cannot be read", topic=self._names[1])
        for messages in read_between(self._target, starts, ends, self._silence_max_s, timeout):
            delivered.add(messages)
        return delivered

    def _put_schemas(self) -> None:
        """Write the writer schemas that the target lacks, because entries are copied byte for byte."""
        records, known = self._source.schemas(), self._target.schemas()
        if MANIFEST_KEY not in records:
            return
        if isinstance(self._target, CaptureTarget):
            self._target.put_schemas(records)
        elif MANIFEST_KEY in known:
            missing = {key: value for key, value in records.items() if key != MANIFEST_KEY and key not in known}
            if missing:
                self._target.put_schemas(missing)

    def _audit(self, run: ReplayRun, event: str, report: ReplayReport | None = None) -> None:
        self._target.audit(*audit_entry(run, self._names, event, report, self._asked_by))

    def _report(
        self,
        run: ReplayRun,
        stats: CopyStats,
        transform: Transform | None,
        took: float,
        *,
        complete: bool,
        samples: DryRunSamples | None = None,
    ) -> ReplayReport:
        """Make the report; of a dry run if there are ``samples``."""
        dry_run = samples is not None
        left_out = {} if transform is None else dict(transform.counts)
        predicate = None if transform is None else transform.predicate
        return ReplayReport(
            job=run.progress.job,
            source=self._names[0],
            target=self._names[1],
            dry_run=dry_run,
            complete=complete,
            checked=complete and not dry_run,
            read=stats.read,
            replayed=stats.tallies.records,
            sent=0 if dry_run else stats.sent,
            already_there=stats.already_there,
            seeded=stats.seeded,
            bytes=stats.tallies.bytes,
            left_out=left_out,
            gaps=(*run.gaps, *stats.gaps),
            missing_offsets=stats.missing_offsets,
            restamped=stats.restamped,
            not_foldable=not_foldable(self.plan, run.ranges, left_out),
            lateness=stats.lateness.to_dict(),
            duration_s=round(took, 3),
            estimate_s=estimate(self.plan, stats, took) if dry_run else None,
            by_partition={at: (tally[0], tally[1]) for at, tally in sorted(stats.tallies.by_partition.items())},
            samples=() if samples is None else samples.samples,
            offset_map=None if dry_run or self._map.path is None else str(self._map.path),
            notes=notes_of(self.plan, stats, predicate, complete=complete),
        )
