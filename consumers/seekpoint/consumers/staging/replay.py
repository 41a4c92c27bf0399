"""The replay: a topic's records into a staging topic (or a file), exactly, safely, at any speed.

    plan ── refuse ── resume? ── seed ── copy, generation by generation ── read back ── compare ── audit

The source is assigned by hand, read committed, and nothing is ever written to its cluster.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from seekpoint.consumers.staging.capture_target import CaptureTarget
from seekpoint.consumers.staging.comparison import OffsetMap, read_back
from seekpoint.consumers.staging.control import Control
from seekpoint.consumers.staging.copying import Copier
from seekpoint.consumers.staging.flow import Flow, Settled
from seekpoint.consumers.staging.headers import HeaderRules, Provenance
from seekpoint.consumers.staging.partitioning import Partitioner, choose
from seekpoint.consumers.staging.plan import Plan, ReplayReport
from seekpoint.consumers.staging.ports import OnDelivery, Source, Stretch, Target
from seekpoint.consumers.staging.progress_file import Progress, ProgressFile
from seekpoint.consumers.staging.resumption import Delivered, stand_still
from seekpoint.consumers.staging.safety import name_of, refuse_target, refuse_timestamps
from seekpoint.consumers.staging.samples import Samples
from seekpoint.consumers.staging.seeding import Seeds
from seekpoint.consumers.staging.selection import Gap, Selection, stretches_of
from seekpoint.consumers.staging.tallies import compare
from seekpoint.consumers.staging.treatment import Treated, Treatment
from seekpoint.schemas.clusters import Cluster, load_clusters
from seekpoint.schemas.codec import Codec
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable, ReplayRefused, SeekpointError
from seekpoint.schemas.limits import DEFAULT_LIMITS
from seekpoint.schemas.manifest import MANIFEST_KEY, Manifest

__all__ = ["Replay"]

OnProgress = Callable[[Flow, Sequence[Stretch]], None]

_SETTLE_S = 1.0
_PACED_LINGER_MS, _FAST_LINGER_MS = 0.5, 20.0


class Replay:
    """One replay from one source into one target. Blocks: under asyncio, ``await asyncio.to_thread(replay.run)``.

    ``pause``, ``resume`` and ``stop`` may be called from any thread. With a ``progress`` file a replay that was
    stopped, or died, goes on when it is made again with the same plan and ``run`` again.

    >>> from seekpoint.consumers.staging.memory_topic import MemoryTopic
    >>> source, target = MemoryTopic(2, cluster_id="prod"), MemoryTopic(2, cluster_id="staging")
    >>> source.append(1, b"case-17", b"any bytes", timestamp_ms=1_700_000_000_000)
    0
    >>> report = Replay(source, target).run()
    >>> report.replayed, report.checked, target.records()[0].value()
    (1, True, b'any bytes')
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        plan: Plan | None = None,
        *,
        names: tuple[str, str] = ("source", "target"),
        is_staging: bool = True,
        job: str | None = None,
        progress: str | Path | None = None,
        offset_map: str | Path | None = None,
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
        self._map = OffsetMap(None if offset_map is None else Path(offset_map))
        self._settle_s = settle_s
        self._silence_max_s = silence_max_s
        self._samples: Samples | None = None

    @classmethod
    def connect(
        cls,
        source: str,
        target: str,
        plan: Plan | None = None,
        *,
        clusters: Mapping[str, Cluster] | None = None,
        overwrite: bool = False,
        **more: Any,
    ) -> Replay:
        """A replay between ``CLUSTER/TOPIC`` (or ``FILE.spk``) and another one, by the profiles of ``seekpoint.toml``.

        ``clusters`` are used instead of those. Further keywords are the constructor's. Raises ``InvalidSetting`` for a
        cluster without a profile, ``ReplayRefused`` for a target file that is there already, unless ``overwrite``.
        """
        from seekpoint.consumers.kafka_replay import open_source, open_target  # Kafka's client, for who replays on it

        clusters = load_clusters() if clusters is None else clusters
        opened = open_source(source, clusters)
        to, is_staging = open_target(target, opened, clusters, overwrite=overwrite)
        return cls(opened, to, plan, names=(source, target), is_staging=is_staging, **more)

    # --- what can be done -----------------------------------------------------------------------------------------
    def dry_run(self, on_progress: OnProgress = lambda flow, stretches: None) -> ReplayReport:
        """Read, select and mask everything, and write nothing. Raises what ``run`` would refuse."""
        trip = _Trip(self)
        samples = self._samples = Samples(trip.codec())
        began = time.monotonic()
        flow = Flow()
        treatment = trip.treatment(samples.keep)
        reading = self._source.read(trip.stretches)
        try:
            copier = Copier(
                trip.stretches,
                reading,
                _Nowhere(),
                trip.partitioner,
                trip.provenance,
                headers=trip.headers,
                treatment=treatment,
                control=self.control,
                flow=flow,
                on_progress=lambda flow: on_progress(flow, trip.stretches),
                silence_max_s=self._silence_max_s,
            )
            if self.plan.seeded:
                trip.seeds(treatment).send(_Nowhere(), flow, None)
            complete = copier.run()
        finally:
            reading.close()
        took = time.monotonic() - began
        return self._report(trip, flow, treatment, took, dry_run=True, complete=complete)

    def run(self, on_progress: OnProgress = lambda flow, stretches: None) -> ReplayReport:
        """Replay, compare, and report. Raises ``ReplayRefused`` before anything was written, ``ReplayMismatch`` if the
        target does not hold what was sent, ``JournalUnavailable`` if a cluster does not answer (run it again).
        """
        try:
            return self._run(on_progress)
        finally:
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
    def _run(self, on_progress: OnProgress) -> ReplayReport:
        known = self._file.load()
        trip = _Trip(self, known)
        progress = trip.progress
        if progress.done:
            raise ReplayRefused(
                "this replay was done before",
                job=progress.job,
                path=str(self._file.path),
                hint="remove the progress file to replay the same again",
            )
        self._file.save(progress)
        self._put_schemas()
        self._audit(trip, "started" if known is None else "resumed")
        flow = Flow(tallies=progress.tallies.copy(), positions=dict(progress.settled))
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
            progress.done = True
            self._file.save(progress)
        report = self._report(trip, flow, treatment, took, dry_run=False, complete=complete)
        self._audit(trip, "finished" if complete else "stopped", report)
        return report

    def _copy(
        self,
        trip: _Trip,
        flow: Flow,
        treatment: Treatment | None,
        delivered: Delivered | None,
        on_progress: OnProgress,
    ) -> bool:
        progress = trip.progress
        sender = self._target.sender(linger_ms=_PACED_LINGER_MS if self.plan.pace.is_paced else _FAST_LINGER_MS)
        left = [
            Stretch(each.partition, flow.positions.get(each.partition, each.start), each.stop)
            for each in trip.stretches
        ]
        reading = self._source.read([each for each in left if each.start < each.stop])

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
            copier = Copier(
                [each for each in left if each.start < each.stop],
                reading,
                sender,
                trip.partitioner,
                trip.provenance,
                headers=trip.headers,
                treatment=treatment,
                pace=self.plan.pace,
                control=self.control,
                delivered=delivered,
                flow=flow,
                tail=tail if self._file.path is not None else dict,
                on_settled=settled,
                on_progress=lambda flow: on_progress(flow, trip.stretches),
                silence_max_s=self._silence_max_s,
            )
            complete = copier.run()
            progress.tallies = flow.tallies.copy()
            return complete
        finally:
            reading.close()
            sender.close()

    def _ends(self) -> dict[int, int]:
        return {partition: mark.high for partition, mark in self._target.marks().items()}

    def _delivered(self, progress: Progress) -> Delivered:
        """What the former run left in the target beyond what it noted."""
        delivered = Delivered(progress.job)
        ends = stand_still(self._ends, lambda: time.sleep(self._settle_s))
        starts = {**progress.target_start, **progress.tail}
        stretches = [Stretch(p, starts.get(p, 0), end) for p, end in sorted(ends.items()) if starts.get(p, 0) < end]
        reading = self._target.read(stretches)
        heard = time.monotonic()
        try:
            while True:
                messages = reading.take(2_000, 0.1)
                delivered.add(messages)
                if not reading.unfinished():
                    return delivered
                heard = time.monotonic() if messages else heard
                if time.monotonic() - heard > self._silence_max_s:
                    raise JournalMismatch("the target cannot be read", topic=self._names[1])
        finally:
            reading.close()

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

    def _audit(self, trip: _Trip, what: str, report: ReplayReport | None = None) -> None:
        """Who, what, when, how: kept in the target's cluster, never in the source's."""
        entry = {
            "what": what,
            "at_ms": time.time_ns() // 1_000_000,
            "by": _who(),
            "job": trip.progress.job,
            "source": {"name": self._names[0], "cluster_id": trip.facts.cluster_id, "topic": trip.facts.topic},
            "target": {"name": self._names[1], "cluster_id": trip.to.cluster_id, "topic": trip.to.topic},
            "plan": self.plan.told(),
            "stretches": [list(each) for each in trip.stretches],
            "report": None if report is None else self._told(report),
        }
        self._target.audit(f"{trip.progress.job}.{what}".encode(), json.dumps(entry).encode())

    def _told(self, report: ReplayReport) -> dict[str, Any]:
        """A note may say what is in a record."""
        return report.to_dict() if self.plan.masks is None else {**report.to_dict(), "notes": []}

    def _report(
        self, trip: _Trip, flow: Flow, treatment: Treatment | None, took: float, *, dry_run: bool, complete: bool
    ) -> ReplayReport:
        left_out = {} if treatment is None else dict(treatment.counts)
        notes = []
        if complete and not flow.tallies.records and self.plan.selection != Selection():
            notes.append("nothing was selected: no record in the source is what was asked for")
        if treatment is not None and treatment.predicate is not None and treatment.predicate.unanswered:
            predicate = treatment.predicate
            notes.append(f"{predicate.unanswered} records could not be asked: {predicate.first_problem}")
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
            not_foldable=_not_foldable(self.plan, trip.stretches, left_out),
            lateness=flow.lateness.to_dict(),
            duration_s=round(took, 3),
            estimate_s=_estimate(self.plan, flow, took) if dry_run else None,
            by_partition={at: (tally[0], tally[1]) for at, tally in sorted(flow.tallies.by_partition.items())},
            samples=self._samples.kept if dry_run and self._samples is not None else (),
            offset_map=None if dry_run or self._map.path is None else str(self._map.path),
            notes=tuple(notes),
        )


class _Trip:
    """One run's facts: both topics, what is read, how it is laid out."""

    def __init__(self, replay: Replay, known: Progress | None = None) -> None:
        self._replay = replay
        plan = replay.plan
        self.facts, self.to = replay._source.facts(), replay._target.facts()
        refuse_target(self.facts, self.to, is_staging=replay._is_staging, cluster=replay._names[1].partition("/")[0])
        self._schemas = replay._source.schemas()
        self.is_journal = MANIFEST_KEY in self._schemas
        self.partitioner: Partitioner = choose(
            plan.partitions,
            self.facts.partitions,
            self.to.partitions,
            keys_change=bool(plan.prefix) or plan.masks is not None,
            is_journal=self.is_journal,
        )
        if isinstance(replay._target, CaptureTarget):
            replay._target.renumbers = not self.partitioner.keeps
        self.headers = HeaderRules(plan.strip_headers)
        self.progress = self._fresh() if known is None else self._same(known)
        self.stretches = self.progress.stretches
        self.gaps = [Gap(*gap) for gap in self.progress.gaps]
        self.provenance = Provenance(self.progress.job, name_of(self.facts), name_of(self.to))
        refuse_timestamps(self.to, *_times(replay._source, self.stretches), time.time_ns() // 1_000_000)

    def _fresh(self) -> Progress:
        replay = self._replay
        stretches, gaps = stretches_of(replay.plan.selection, replay._source.marks(), replay._source.offset_at)
        return Progress(
            job=replay._job,
            plan=replay.plan.to_dict(),
            source=f"{name_of(self.facts)} {self.facts.topic_id}",
            target=f"{name_of(self.to)} {self.to.topic_id}",
            stretches=stretches,
            gaps=[list(gap) for gap in gaps],
            target_start={partition: mark.high for partition, mark in replay._target.marks().items()},
        )

    def _same(self, known: Progress) -> Progress:
        """The progress of a former run, if it is of the same plan and the same topics."""
        found = (f"{name_of(self.facts)} {self.facts.topic_id}", f"{name_of(self.to)} {self.to.topic_id}")
        if (known.source, known.target) != found:
            raise ReplayRefused(
                "the progress file is of other topics, or one of them was made anew",
                expected=f"{known.source} into {known.target}",
                found=" into ".join(found),
                hint="remove the progress file to start anew",
            )
        plan = {**self._replay.plan.to_dict(), "pace": None}
        if {**known.plan, "pace": None} != plan:
            raise ReplayRefused(
                "the progress file is of another plan", hint="give the same options again, or remove it to start anew"
            )
        return known

    def codec(self) -> Codec:
        """Decodes the source's entries."""
        limits = DEFAULT_LIMITS
        if MANIFEST_KEY in self._schemas:
            limits = Manifest.from_bytes(self._schemas[MANIFEST_KEY]).limits
        return Codec(limits, _by_fingerprint(self._schemas), lambda: _by_fingerprint(self._replay._source.schemas()))

    def treatment(self, on_masked: Callable[[Any, Treated], None] | None) -> Treatment | None:
        """What is done with each record; None: nothing."""
        plan = self._replay.plan
        if plan.is_plain:
            return None
        return Treatment(
            plan.selection, self.headers, self.codec(), masks=plan.masks, prefix=plan.prefix, on_masked=on_masked
        )

    def seeds(self, treatment: Treatment | None) -> Seeds:
        """The states that processes start from. Raises ``ReplayRefused`` if the source is no journal."""
        replay, codec = self._replay, self.codec()
        if not self.is_journal:
            raise ReplayRefused("only processes of a journal can be seeded", topic=self.facts.topic)
        return Seeds(
            source=replay._source,
            codec=codec,
            treatment=treatment or Treatment(replay.plan.selection, self.headers, codec),
            partitioner=self.partitioner,
            provenance=self.provenance,
            stretches=self.stretches,
            processes=replay.plan.selection.processes,
            partitions=self.facts.partitions,
            silence_max_s=replay._silence_max_s,
        )


class _Nowhere:
    """A ``Sender`` for a dry run."""

    def produce(
        self, value: Any, key: Any, partition: int, on_delivery: OnDelivery, timestamp: int, headers: Any
    ) -> None:
        """It would have arrived."""
        on_delivery(None, None)

    def poll(self, timeout_s: float) -> None:
        """Nothing to tell."""

    def refusal(self, error: Any) -> SeekpointError:
        """Nothing is ever refused here."""
        return JournalUnavailable(f"a record was refused: {error}")

    def flush(self, timeout_s: float) -> int:
        """Nothing is open."""
        return 0

    def close(self) -> None:
        """Nothing to drop."""


def _by_fingerprint(records: Mapping[bytes, bytes]) -> dict[bytes, str]:
    found = {}
    for key, value in records.items():
        try:
            if len(key) == 16:
                found[bytes.fromhex(key.decode())] = value.decode()
        except ValueError:
            continue
    return found


def _times(source: Source, stretches: Sequence[Stretch]) -> tuple[int | None, int | None]:
    """The times of the first and the last record of the stretches, as far as a quick look tells."""
    ends = [
        *(Stretch(each.partition, each.start, each.stop) for each in stretches),
    ]
    stamps: list[int] = []
    for first in (True, False):
        wanted = ends if first else [Stretch(each.partition, each.stop - 1, each.stop) for each in stretches]
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


def _not_foldable(plan: Plan, stretches: Sequence[Stretch], left_out: Mapping[str, int]) -> tuple[str, ...]:
    reasons = []
    if not plan.selection.keeps_histories:
        reasons.append("entries were selected one by one (kinds, actors, headers, predicate)")
    if not plan.seeded and any(stretch.start > 0 for stretch in stretches):
        reasons.append("the range does not start at the log's beginning, and processes were not seeded")
    if any(why.startswith("dropped") for why in left_out):
        reasons.append("records were dropped by a mask's policy")
    return tuple(reasons)


def _estimate(plan: Plan, flow: Flow, took: float) -> float:
    """Unpaced: twice as long as reading alone took, which is what a copy costs."""
    if plan.pace.rate is not None:
        return round(flow.tallies.records / plan.pace.rate, 1)
    if plan.pace.speed is not None and flow.first_ms is not None and flow.last_ms is not None:
        return round((flow.last_ms - flow.first_ms) / 1000 / plan.pace.speed, 1)
    return round(2 * took, 1)


def _who() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without a passwd entry
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
