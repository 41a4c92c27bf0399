"""Run the demo: start Kafka and the workers, submit cases, kill a worker, check the result, and print the story."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.console.demo.aftermath import Aftermath, BackgroundProjector, compare_tiers, lose_redis
from seekpoint.console.demo.cases import support_cases
from seekpoint.console.demo.checker import DemoEvidence, check
from seekpoint.console.demo.demo_story import DemoStory
from seekpoint.console.demo.demo_worker import FleetConfig
from seekpoint.console.demo.fleet import Fleet
from seekpoint.console.demo.journal_reading import Placed, read_journal
from seekpoint.console.demo.outcome import DemoOutcome, Kill, take_overs
from seekpoint.console.demo.scripted_agent import SUPPORT
from seekpoint.console.demo.transcripts import Transcript, read_runs, save_transcripts
from seekpoint.console.demo.watch import FleetWatch
from seekpoint.console.render.command_errors import is_debug
from seekpoint.consumers import Recovery
from seekpoint.producers import Client
from seekpoint.schemas.config.private_files import write_private
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ClusterFailed

_LOOK_S = 0.01
_JOIN_S = 15.0
"""How long to wait until every worker has partitions. The cases are submitted then in any case."""
_KILL_FROM, _KILL_ANYONE_FROM = 0.35, 0.6
"""The shares of answered model calls from which on a worker with several open cases, or any that works, is killed."""
_PASSED_ON = (
    "journal", "bootstrap_servers", "redis_url", "partitions", "owner_timeout_s", "heartbeat_interval_s",
    "kafka_consumer",
)  # fmt: skip
_DEMO_SETTINGS: Mapping[str, Any] = {
    "owner_timeout_s": 4.0, "heartbeat_interval_s": 0.25, "kafka_consumer": {"heartbeat.interval.ms": 150},
}  # fmt: skip
"""Shorter intervals than the defaults, so that workers join sooner, and a dead one is noticed sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo. ``settings`` name an existing Kafka; without them the demo starts a local cluster."""

    runs: Path | None = None
    cases: int = 24
    nodes: int = 4
    concurrency: int = 5
    think_s: tuple[float, float] = (0.02, 0.06)
    keep: bool = False
    """Keep the cluster running in ``directory`` after the demo."""
    directory: Path = Path(".seekpoint")
    settings: Settings | None = None
    time_limit_s: float = 100.0
    long_entries: int = 20_000
    """The number of entries of the process that is recovered from each tier."""


def run(options: DemoOptions, story: DemoStory) -> DemoOutcome:
    """Run the demo and print its story. Without ``keep``, remove everything at the end, also after an error.

    Raises ``ClusterFailed`` or ``JournalUnavailable`` without a Kafka, and ``Refused`` for unusable runs.
    """
    began = time.monotonic()
    cases = support_cases(options.cases) if options.runs is None else read_runs(options.runs)
    story.open(cases, options.nodes)
    with _environment(options, story) as environment, _folder(options, environment.settings) as folder:
        settings = environment.settings
        story.step("creating the journal's topics")
        with _warnings_hidden("seekpoint.compose", options.settings is None):
            create_topics_sync(settings)
        save_transcripts(folder / "cases.jsonl", cases)
        passed_on = {name: getattr(settings, name) for name in _PASSED_ON}
        FleetConfig(settings=passed_on, concurrency=options.concurrency, think_s=options.think_s).save(folder)
        with _warnings_hidden("seekpoint.consumers", True):  # the demo itself empties Redis
            outcome, log = _run_steps(options, environment, cases, folder, story)
        outcome = replace(outcome, duration_s=time.monotonic() - began)
    story.close(outcome, log)
    story.farewell(outcome, options.directory if options.keep else None)
    return outcome


# --- Kafka and files --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Environment:
    """A running Kafka with a journal for the demo. ``is_ours``: Redis has nothing but the demo's data."""

    settings: Settings
    is_ours: bool


@contextlib.contextmanager
def _environment(options: DemoOptions, story: DemoStory) -> Iterator[_Environment]:
    if options.settings is not None:
        yield _Environment(options.settings, False)
    elif options.keep:
        with _kept_cluster(options.directory, story) as cluster:
            yield _Environment(cluster.settings(journal=time.strftime("demo-%Y%m%d-%H%M%S"), **_DEMO_SETTINGS), False)
    else:
        story.step("starting a real Kafka and a real Valkey for this demo")
        with LocalCluster(progress=story.progress) as cluster:
            yield _Environment(cluster.settings(journal="demo", **_DEMO_SETTINGS), True)


@contextlib.contextmanager
def _kept_cluster(directory: Path, story: DemoStory) -> Iterator[LocalCluster]:
    """Yield a cluster that keeps running. After an error, stop the cluster if it did not run before."""
    was_up = _runs(directory)
    story.step(f"{'using the' if was_up else 'starting a'} local cluster in {directory}")
    cluster = LocalCluster.start_detached(directory, progress=story.progress)
    try:
        if not os.path.lexists(directory / ".gitignore"):
            write_private(directory / ".gitignore", "*\n")
        yield cluster
    except BaseException:
        if not was_up:
            cluster.stop()
        raise


@contextlib.contextmanager
def _warnings_hidden(name: str, is_known: bool) -> Iterator[None]:
    """Hide warnings of the logger ``name`` that the demo causes on purpose, except with ``--debug``."""
    logger = logging.getLogger(name)
    level = logger.level
    if is_known and not is_debug():
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _runs(directory: Path) -> bool:
    try:
        return any(part.answers for part in LocalCluster.attach(directory).status())
    except ClusterFailed:
        return False


@contextlib.contextmanager
def _folder(options: DemoOptions, settings: Settings) -> Iterator[Path]:
    """Yield the folder for the files of the model and the workers."""
    if options.keep:
        kept = options.directory / "demo" / settings.journal
        kept.mkdir(parents=True)
        yield kept.absolute()
    else:
        folder = Path(tempfile.mkdtemp(prefix="seekpoint-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# --- the steps of the demo --------------------------------------------------------------------------------------------
def _run_steps(
    options: DemoOptions, environment: _Environment, cases: Sequence[Transcript], folder: Path, story: DemoStory
) -> tuple[DemoOutcome, list[Placed]]:
    settings = environment.settings
    with contextlib.ExitStack() as stack:
        projector = None if settings.redis_url is None else stack.enter_context(BackgroundProjector(settings))
        outcome, log, recovered = _run_fleet(options, settings, cases, folder, story)
        stack.close()
        if projector is None:
            return outcome, log
        if projector.failure is not None:
            complaints = (*outcome.verdict.complaints, f"the projector failed: {projector.failure}")
            return replace(outcome, verdict=replace(outcome.verdict, complaints=complaints)), log
    story.step("the projector stops, and the demo deletes everything in Redis: the view and the heartbeats")
    flush = lose_redis(settings, recovered, is_ours=environment.is_ours)
    story.step(f"writing {options.long_entries:,} entries of one process, while a projector fills Redis again")
    return replace(outcome, aftermath=Aftermath(flush=flush, tiers=compare_tiers(settings, options.long_entries))), log


def _run_fleet(
    options: DemoOptions, settings: Settings, cases: Sequence[Transcript], folder: Path, story: DemoStory
) -> tuple[DemoOutcome, list[Placed], dict[str, str]]:
    watch = FleetWatch(folder, options.nodes)
    story.step(f"starting {options.nodes} workers{'' if settings.redis_url is None else ', and a projector'}")
    with Fleet(folder, options.nodes, remove=not options.keep) as fleet:
        kill, results = asyncio.run(_run_cases(watch, fleet, cases, options, settings, story))
        fleet.stop()
        broken = [f"{name} failed: {why}" for name, why in fleet.broken().items()]
    watch.look()
    story.step("comparing the model's bill, the workers' notes and every state with the whole log")
    log, recovered = read_journal(settings), _recovered(settings)
    verdict = check(
        DemoEvidence(
            transcripts=cases,
            calls=watch.calls,
            notes=watch.notes,
            results=[case for case, found in results.items() if not isinstance(found, BaseException)],
            log=log,
            recovered=recovered,
            killed=frozenset(fleet.killed),
        )
    )
    not_killed = [] if kill else ["no worker was killed: none was in the middle of its work"]
    failed = [f"{case}: {found}" for case, found in results.items() if isinstance(found, BaseException)]
    verdict = replace(verdict, complaints=(*broken, *failed, *not_killed, *verdict.complaints))
    outcome = DemoOutcome(
        journal=settings.journal,
        nodes=options.nodes,
        cases=len(cases),
        verdict=verdict,
        kill=kill,
        take_overs=take_overs(watch.take_overs(), log, kill),
        duration_s=0.0,
    )
    return outcome, log, recovered


async def _run_cases(
    watch: FleetWatch,
    fleet: Fleet,
    cases: Sequence[Transcript],
    options: DemoOptions,
    settings: Settings,
    story: DemoStory,
) -> tuple[Kill | None, dict[str, Any]]:
    """Submit the cases once all workers have joined, and kill one. Return the kill, and the result or error of each."""
    async with Client.connect(settings) as client:
        await fleet.joined(settings, _JOIN_S)
        story.step(f"a client submits {len(cases)} runs")
        runs = [await client.submit(SUPPORT, case.case, dict(case.facts), actor="demo") for case in cases]
        waiting = asyncio.gather(*(run.result(options.time_limit_s) for run in runs), return_exceptions=True)
        kill = None
        while fleet.working and not waiting.done():
            story.saw(watch.look())
            if kill is None and (kill := _kill_one(watch, fleet, cases, options)) is not None:
                story.killed(kill, options.nodes)
            await asyncio.sleep(_LOOK_S)
        results = waiting.result() if waiting.done() else []
        waiting.cancel()
    return kill, {run.id: result for run, result in zip(runs, results, strict=False)}


def _kill_one(watch: FleetWatch, fleet: Fleet, cases: Sequence[Transcript], options: DemoOptions) -> Kill | None:
    """Kill the worker with the most open cases if this is the middle of the work."""
    done = watch.answers / sum(transcript.model_calls for transcript in cases)
    cases_min = 1 if done >= _KILL_ANYONE_FROM else min(2, options.concurrency)
    victim = watch.victim(fleet.working, cases_min) if done >= _KILL_FROM else None
    if victim is None:
        return None
    pid, at = fleet.pid(victim), time.time()
    fleet.kill(victim)
    watch.look()
    held = {case: watch.answers_in(case) for case in watch.held(victim)}
    return Kill(node=victim, pid=pid, at=at, held=held, under_way=len(watch.under_way(victim)))


def _recovered(settings: Settings) -> dict[str, str]:
    """Return the hash of the recovered state of each process."""

    async def recover() -> dict[str, str]:
        async with Recovery.connect(settings) as recovery:
            return {case: found.state.hash for case, found in (await recovery.processes()).items()}

    return asyncio.run(recover())
