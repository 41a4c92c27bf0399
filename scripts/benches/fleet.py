"""A client submits runs to two workers: runs a second, and the time from a submission to the first step. fsync on.

The workers are processes of their own. Each run has three steps; the clock stops when the client has the last result.
Beside it, in the same run: `node.run` of the same agent, in one program, without submissions.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _table import Table, arguments, p50, p99, progress
from restart import environment
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.producers import Client, Node, Process, agent
from seekpoint.schemas import Settings

FSYNC = {"flush.messages": "1"}
RUNS, ROUNDS, WORKERS, PARTITIONS, SINGLE = 300, 5, 2, 8, 60
LINGER_MS = 1.0
RATE_BAR, FIRST_STEP_BAR_MS = 500, 15.0

WORKER = """
import asyncio, os, signal, sys, time
sys.path.insert(0, os.environ["BENCHES"])
from fleet import steps3
from seekpoint.producers import Worker
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    worker = Worker([steps3], drain_s=2.0)
    async def joined():
        while not worker.assigned:
            await asyncio.sleep(0.05)
        print("joined", flush=True)
    telling = asyncio.ensure_future(joined())
    await worker.run(stop)
asyncio.run(main())
"""


async def now() -> float:
    """The first step's body: when it ran."""
    return time.time()


async def work(number: int) -> int:
    """Another step's body, which costs nothing."""
    return number


@agent("steps3")
async def steps3(process: Process, number: int) -> float:
    """Three steps; the result is when the first one ran."""
    began = await process.step("first", now)
    await process.step("second", work, number)
    await process.step("third", work, number)
    return began


@contextmanager
def workers(settings: Settings, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start worker processes, and end them."""
    environ = environment(settings) | {"BENCHES": str(Path(__file__).resolve().parent)}
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER], env=environ, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline().strip() == "joined"
        time.sleep(3.0)
        yield started
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(15)


async def submitted_rate(client: Client, name: str) -> float:
    """Runs a second from the first submission to the last result."""
    began = time.perf_counter()

    async def one(number: int) -> None:
        run = await client.submit(steps3, f"{name}-{number}", number)
        await run.result(60)

    await asyncio.gather(*(one(number) for number in range(RUNS)))
    return RUNS / (time.perf_counter() - began)


async def local_rate(node: Node, name: str) -> float:
    """Runs a second of one program that runs all of them itself, 50 at once."""
    names = iter([f"{name}-{number}" for number in range(RUNS)])

    async def chain() -> None:
        for one in names:
            await node.run(steps3, one, 1)

    began = time.perf_counter()
    await asyncio.gather(*(chain() for _ in range(50)))
    return RUNS / (time.perf_counter() - began)


async def main() -> int:
    """Run it."""
    options = arguments(__doc__).parse_args()
    table = Table("fleet")
    async with LocalCluster(brokers=1) as cluster:
        settings = cluster.settings(journal="fleet", partitions=PARTITIONS, topic=FSYNC, linger_ms=LINGER_MS)
        await create_topics(settings)
        with workers(settings, WORKERS):
            async with Client.connect(settings) as client:
                ours, theirs = [], []
                for number in range(ROUNDS + 1):
                    progress(f"round {number}/{ROUNDS}")
                    ours.append(await submitted_rate(client, f"round-{number}"))
                    async with Node.connect(settings) as node:
                        theirs.append(await local_rate(node, f"local-{number}"))
                first = []
                for number in range(SINGLE):
                    began = time.time()
                    run = await client.submit(steps3, f"single-{number}", number)
                    first.append((await run.result(30) - began) * 1_000)
    rate, local = p50(ours[1:]), p50(theirs[1:])
    table.row(what=f"{RUNS} runs x 3 steps, {WORKERS} workers", runs_per_s=rate, node_run_per_s=local)
    table.at_least("submitted runs a second", bar=RATE_BAR, value=rate)
    table.row(what="submission to first step, idle fleet", p50_ms=p50(first), p99_ms=p99(first))
    table.at_most("ms from submission to first step", bar=FIRST_STEP_BAR_MS, value=p50(first))
    return table.finish(json=options.json)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
