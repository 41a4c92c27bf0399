"""Faults of whole fleets, on a Kafka of their own: ``scripts/faults fleet SCENARIO``.

kill: one of three workers is killed with 1,000 runs under way.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from _table import Table, progress
from killed_worker import kill_one
from ledger_run import Judged, story
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.schemas import Settings

__all__: list[str] = []

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


async def journal_of(cluster: LocalCluster, **options: float) -> Settings:
    """Create the topics of a journal."""
    settings = cluster.settings(journal="fleet", **options)
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


SCENARIOS: dict[str, Scenario] = {"kill": kill}


async def main() -> int:
    """Run one scenario."""
    parser = argparse.ArgumentParser(
        prog="scripts/faults fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--runs", type=int, help="how many runs (kill: 1,000)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="the seed of the choices")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the ledger and the workers' log there")
    options = parser.parse_args()
    table = Table(f"fleet {options.scenario}, seed {options.seed}")
    progress("starting Kafka")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        async with LocalCluster() as cluster:
            await SCENARIOS[options.scenario](cluster, folder, options, table)
    return table.finish(json=options.json)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
