"""The first minute on Kafka: what ``seekpoint up`` takes, and what the first steps on a fresh broker cost.

``up`` runs with an empty cache of its own (Kafka's jars are on the machine already), after a ``down``, and while the
cluster runs; beside it, what Kafka's own programs take to format a folder and to start in it. Each round of steps has a
broker that nobody used before, and so has each round of a raw idempotent producer's records.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from _table import Table, arguments, p50, percentile, progress, times_raw
from append import Raw, journal
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.compose.brokers import broker_properties, kafka_uuid, to_text
from seekpoint.compose.cluster_ports import accepts, free_ports
from seekpoint.compose.runtime import Runtime
from seekpoint.producers import Node
from seekpoint.schemas import Settings

ROUNDS, STEPS, STARTS = 3, 200, 5
FIRST_UP_S, NEXT_UP_S, STEP_MS, TIMES_RAW, TIMES_SECOND = 20.0, 2.0, 1.5, 2.0, 2.0

PROGRAM = """
import asyncio
from seekpoint import Node, agent

@agent("greetings")
async def greetings(process, name):
    await process.step("hello", "hello {}".format, name)
    print("stepped", flush=True)

async def main():
    async with Node.connect() as node:
        await node.run(greetings, PROCESS, "Ada")

asyncio.run(main())
"""


def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=("up", "steps", "program"), help="one part of it")
    options = parser.parse_args()
    logging.getLogger("seekpoint").setLevel(logging.ERROR)
    Runtime.prepared()  # the jars are fetched before anything is timed
    table = Table("first_steps")
    parts = {"up": up, "steps": steps, "program": program}
    with tempfile.TemporaryDirectory(prefix="seekpoint-bench-") as folder:
        for name, part in parts.items():
            if options.only in (None, name):
                part(table, Path(folder))
    return table.finish(json=options.json)


# --- seekpoint up
def up(table: Table, folder: Path) -> None:
    """The command, from its start to its end, in a new folder with a new cache."""
    own = {"SEEKPOINT_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}
    try:
        progress("seekpoint up, for the first time")
        first = seekpoint("up", own)
        again, running = [], []
        for index in range(STARTS):
            progress(f"seekpoint up, {index + 1}/{STARTS}")
            seekpoint("down", own)
            again.append(seekpoint("up", own))
            running.append(seekpoint("up", own))
    finally:
        seekpoint("down", own)
    progress("Kafka's own programs")
    plain = p50([plain_start(folder / f"plain-{index}") for index in range(3)])
    table.row(what="seekpoint up, the first time", s=first, plain_kafka_s=plain)
    table.row(what="seekpoint up after a seekpoint down, p50", s=p50(again), plain_kafka_s=plain)
    table.row(what="seekpoint up while the cluster runs, p50", s=p50(running))
    table.at_most("seekpoint up, the first time, s", bar=FIRST_UP_S, value=first)
    table.at_most("seekpoint up after a seekpoint down, p50, s", bar=NEXT_UP_S, value=p50(again))
    table.at_most("seekpoint up while the cluster runs, p50, s", bar=NEXT_UP_S, value=p50(running))


def seekpoint(command: str, more: dict[str, str]) -> float:
    """Run a command, and return its seconds."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "seekpoint", command, "--json"], env=os.environ | more, capture_output=True, check=True
    )
    return time.perf_counter() - began


def plain_start(folder: Path) -> float:
    """Seconds of Kafka's storage tool and of a broker until its port accepts, both without a cache of classes."""
    folder.mkdir()
    client, controller = free_ports(2)
    properties, runtime = folder / "server.properties", Runtime.prepared()
    properties.write_text(to_text(broker_properties(1, [(client, controller)], folder / "data")))
    began = time.perf_counter()
    tool = runtime.command("kafka.tools.StorageTool", "format", "-t", kafka_uuid(), "-c", str(properties))
    subprocess.run(tool, capture_output=True, check=True)
    with subprocess.Popen(
        runtime.command("kafka.Kafka", str(properties)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as broker:
        while not accepts(client):
            assert broker.poll() is None, "the broker ended"
            time.sleep(0.02)
        taken = time.perf_counter() - began
        broker.kill()
    return taken


# --- steps
def steps(table: Table, folder: Path) -> None:
    """The first steps, and a raw client's first records, each on fresh brokers, in turn."""
    for fsync in (True, False):
        how = "fsync" if fsync else "no fsync"
        ours: list[float] = []
        raw: list[float] = []
        for index in range(ROUNDS):
            progress(f"first steps, {how}, {index + 1}/{ROUNDS}")
            ours += on_fresh_broker(first_steps, fsync=fsync)
            raw += on_fresh_broker(first_records, fsync=fsync)
        table.row(
            what=f"the first {STEPS} steps, {how}", p50_ms=p50(ours), p90_ms=percentile(ours, 90),
            raw_p50_ms=p50(raw), times_raw=times_raw(p50(ours), p50(raw)),
        )  # fmt: skip
        if fsync:  # the disk's part of it is not Seekpoint's
            table.at_most(
                f"the first {STEPS} steps, {how}, p50, times raw", bar=TIMES_RAW, value=times_raw(p50(ours), p50(raw))
            )
        else:
            table.at_most(f"the first {STEPS} steps, {how}, p50, ms", bar=STEP_MS, value=p50(ours))


def on_fresh_broker(measure: Callable[[Settings], Awaitable[list[float]]], *, fsync: bool) -> list[float]:
    """What is measured on a new cluster, of which only the topics were made before."""

    async def run() -> list[float]:
        async with LocalCluster(brokers=1) as cluster:
            return await measure(await journal(cluster, "first", fsync=fsync, partitions=8))

    return asyncio.run(run())


async def first_steps(settings: Settings) -> list[float]:
    """Milliseconds of each step."""
    async with Node.connect(settings) as node, node.open("case") as process:
        return await each(lambda index: process.step("look_up", look_up, f"order {index}"))


async def first_records(settings: Settings) -> list[float]:
    """Milliseconds of each acknowledged record; one more comes first, as a process is opened before its first step."""
    raw = Raw(settings)
    await raw.acknowledged(-1)
    return await each(raw.acknowledged)


async def each(call: Callable[[int], Awaitable[object]]) -> list[float]:
    """Milliseconds of each call, one after the other."""
    taken = []
    for index in range(STEPS):
        began = time.perf_counter()
        await call(index)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def look_up(order: object) -> dict[str, object]:
    """A step's body that costs nothing."""
    return {"order": order, "found": True}


# --- the first program
def program(table: Table, folder: Path) -> None:
    """A program's start to its first step, as the first on a fresh broker, and as the second on the same."""
    first, second = [], []
    for index in range(ROUNDS):
        progress(f"first program, {index + 1}/{ROUNDS}")
        with LocalCluster(brokers=1) as cluster:
            settings = cluster.settings()
            create_topics_sync(settings)
            first.append(to_first_step("visit-1", settings))
            second.append(to_first_step("visit-2", settings))
    ratio = p50(first) / p50(second)
    table.row(what="first program to its first step, p50", s=p50(first), second_program_s=p50(second))
    table.at_most("the first program's time to its first step, times the second's", bar=TIMES_SECOND, value=ratio)


def to_first_step(process_id: str, settings: Settings) -> float:
    """Seconds from the start of a program to its first step."""
    where = {"SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers, "SEEKPOINT_REDIS_URL": settings.redis_url or ""}
    code = PROGRAM.replace("PROCESS", json.dumps(process_id))
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | where, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "stepped\n"
        return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
