"""Faults of whole fleets, on a Kafka of their own: ``scripts/faults fleet SCENARIO``.

kill: one of three workers is killed with 1,000 runs under way.
waits: for each thing that a run may wait for, the worker is killed 50 times between noticing and acting.
reactors: a member of the reactors' group is killed 50 times between noticing and acting, in reactions and in sweeps.
gates: 10,000 runs wait for approvals in two workers: processor time, memory, and how soon each goes on.
redis: Redis is flushed, frozen for a minute and absent while workers run.
storm: a worker joins or leaves every two seconds for two minutes; every second one that leaves is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from _table import Table, p50, p99, progress
from killed_worker import kill_one
from ledger_run import Judged, story
from reactor_kills import REACTIONS, SWEEPS, disturb_reactors
from redis_faults import disturb_redis
from schedule_kills import SCHEDULE, disturb_schedule
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.schemas import Settings
from waiting_gates import wait_on_gates
from waiting_kills import KINDS, disturb
from worker_storm import storm

__all__: list[str] = []

REACTOR_KINDS = (REACTIONS, SWEEPS)

Scenario = Callable[[LocalCluster, Path, argparse.Namespace, Table], Awaitable[None]]


async def kill(cluster: LocalCluster, folder: Path, options: argparse.Namespace, table: Table) -> None:
    """Kill one of three workers."""
    settings = await journal_of(cluster)
    runs = options.runs or 1_000
    judged, resumed = await kill_one(
        settings, folder, runs=runs, call_takes_s=0.5 + runs / 150, seed=options.seed, deadline_s=300
    )
    table.row(**asdict(resumed))
    note(table, settings, folder, judged)
    table.at_most("seconds from the kill to the first resumed step", bar=1.0, value=resumed.first_step_s)


async def waits(cluster: LocalCluster, folder: Path, options: argparse.Namespace, table: Table) -> None:
    """Kill the responsible worker, or a member of the reactors' group, between noticing and acting."""
    kills, calm = options.kills, max(2, options.kills // 5)
    for kind in options.kinds or (REACTOR_KINDS if options.scenario == "reactors" else (*KINDS, SCHEDULE)):
        progress(f"{kind}: {kills} kills")
        settings = await journal_of(cluster, f"waits-{kind}")
        (here := folder / kind).mkdir()
        if kind == SCHEDULE:
            found = await disturb_schedule(settings, here, kills, calm)
        elif kind in REACTOR_KINDS:
            found = await disturb_reactors(settings, here, kind, kills, calm)
        else:
            found = await disturb(settings, here, kind, kills, calm)
        late, after = found.late_s, found.late_after_kill_s
        table.row(
            waits_for=kind, kills=found.kills, late_p50_s=p50(late), late_max_s=max(late),
            after_kill_p50_s=p50(after), after_kill_max_s=max(after), faults=len(found.faults),
        )  # fmt: skip
        # To the sweep, a moment that no worker saw is a fault.
        table.at_most(f"{kind}: seconds late without a fault", bar=15.0 if kind == SWEEPS else 2.0, value=max(late))
        table.at_most(f"{kind}: seconds late after a kill", bar=15.0, value=max(after))
        table.at_most(f"{kind}: faults", bar=0, value=len(found.faults))
        for fault in found.faults:
            print(fault, file=sys.stderr)


async def gates(cluster: LocalCluster, folder: Path, options: argparse.Namespace, table: Table) -> None:
    """Let 10,000 runs wait for approvals."""
    settings, runs = await journal_of(cluster), options.runs or 10_000
    costs = await wait_on_gates(
        settings, folder, runs=runs, single=runs // 50, burst=runs // 5, idle_s=60.0, has_projector=options.projector
    )
    table.row(runs=runs, core_percent=max(costs.cores) * 100, resident_mb=max(costs.resident_mb))
    for what, delays in (("approved one by one", costs.one_by_one_s), ("approved at once", costs.burst_s)):
        table.row(
            what=what, number=len(delays), step_p50_s=p50(delays), step_p99_s=p99(delays), step_max_s=max(delays)
        )  # fmt: skip
    table.at_most("percent of a core, a worker that waits", bar=1.0, value=max(costs.cores) * 100)
    table.at_most("resident megabytes of a worker", bar=500, value=max(costs.resident_mb))
    table.at_most("seconds from an approval to the next step", bar=2.0, value=max(costs.one_by_one_s))


async def comes_and_goes(cluster: LocalCluster, folder: Path, options: argparse.Namespace, table: Table) -> None:
    """Let a worker join or leave every two seconds for two minutes."""
    settings = await journal_of(cluster)
    judged, seen = await storm(
        settings, folder, runs=options.runs or 600, lasts_s=options.seconds or 120, seed=options.seed, deadline_s=400
    )
    table.row(**asdict(seen))
    note(table, settings, folder, judged)


async def without_redis(cluster: LocalCluster, folder: Path, options: argparse.Namespace, table: Table) -> None:
    """Flush, freeze and stop Redis."""
    settings, frozen_s = await journal_of(cluster), options.seconds or 60
    judged, seen = await disturb_redis(
        cluster, settings, folder, frozen_s=frozen_s, absent_s=frozen_s / 2, deadline_s=400
    )
    for phase, calls in seen.calls.items():
        table.row(redis=phase, calls=calls, longest_silence_s=seen.longest_silence_s[phase])
        table.at_most(f"{phase}: seconds without a new call", bar=5.0, value=seen.longest_silence_s[phase])
    note(table, settings, folder, judged)
    table.at_most("processes that were taken from a worker", bar=0, value=judged.takeovers)


async def journal_of(cluster: LocalCluster, name: str = "fleet", **options: float) -> Settings:
    """Create the topics of a journal."""
    settings = cluster.settings(journal=name, **options)
    await create_topics(settings)
    return settings


def note(table: Table, settings: Settings, folder: Path, judged: Judged) -> None:
    """Note what was judged, and tell the story of each process that something is wrong with."""
    table.row(**{name: value for name, value in asdict(judged).items() if name != "faults"})
    table.at_least("finished runs", bar=judged.runs, value=judged.finished)
    table.at_most("faults", bar=0, value=len(judged.faults))
    for fault in judged.faults:
        print(fault, file=sys.stderr)
    for process_id in list(dict.fromkeys(fault.partition("/")[0] for fault in judged.faults))[:5]:
        print(story(settings, folder / "ledger.jsonl", process_id), file=sys.stderr)


SCENARIOS: dict[str, Scenario] = {
    "kill": kill,
    "waits": waits,
    "reactors": waits,
    "gates": gates,
    "redis": without_redis,
    "storm": comes_and_goes,
}


async def main() -> int:
    """Run one scenario."""
    parser = argparse.ArgumentParser(
        prog="scripts/faults fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--runs", type=int, help="how many runs (kill: 1,000; gates: 10,000)")
    parser.add_argument("--kills", type=int, default=50, help="waits: how many kills for each kind (50)")
    parser.add_argument(
        "--kinds", nargs="+", choices=(*KINDS, SCHEDULE, *REACTOR_KINDS), help="waits, reactors: only these"
    )
    parser.add_argument("--seconds", type=float, help="storm: how long it lasts (120); redis: how long frozen (60)")
    parser.add_argument("--no-projector", dest="projector", action="store_false", help="gates: run no projector")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="the seed of the choices")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the ledger and the workers' log there")
    options = parser.parse_args()
    if options.keep is not None and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty: the ledger of another run would be judged too")
    table = Table(f"fleet {options.scenario}, seed {options.seed}")
    progress("starting Kafka")
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            async with LocalCluster() as cluster:
                progress(f"{options.scenario} is under way")
                await SCENARIOS[options.scenario](cluster, folder, options, table)
    finally:
        held = table.finish(json=options.json)  # also what is known when it is interrupted
    return held


async def until_terminated() -> int:
    """Run one scenario; SIGTERM ends it and its workers."""
    running = asyncio.ensure_future(main())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running


if __name__ == "__main__":
    sys.exit(asyncio.run(until_terminated()))
