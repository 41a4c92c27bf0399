"""What people do with a history: fork, rewind and compare a process of 10^3 and of 10^5 entries, with Redis.

A fork as of now costs what opening a new process costs, which stands beside it. A moment of the past costs the reading
of the history up to it, and a comparison the reading of both histories. The process keeps a hundred values.

Reruns of a hundred recorded runs, in memory, stand beside the first runs: a decision and three steps each.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from _table import Table, arguments, p50, p99, progress, times_raw
from recovery import Fleet
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog, Settings

LENGTHS, VALUES = (1_000, 100_000), 100
OFTEN, SELDOM, WARM_UP = 60, 3, 10
FORK_BAR_MS = 20.0
RUNS, ROUNDS, RERUN_BAR = 100, 5, 500


async def main() -> int:
    """Run it."""
    options = arguments(__doc__).parse_args()
    table = Table("history")
    await reruns(table)
    async with LocalCluster(brokers=1) as cluster:
        for length in LENGTHS:
            settings = cluster.settings(journal=f"history-{length}", partitions=1)
            await create_topics(settings)
            progress(f"{length} entries of history")
            await asyncio.to_thread(write, settings, length)
            async with Node.connect(settings) as node:
                await measure(table, node, length)
    return table.finish(json=options.json)


async def work(number: int) -> int:
    """A body that costs nothing."""
    return number


async def answer(request: dict[str, str]) -> str:
    """A model's answer."""
    return request["model"]


@agent("triage")
async def triage(process: Process, number: int) -> int:
    """Decide, and take three steps."""
    await process.decide("choose", answer, {"model": "small"})
    return sum([await process.step("work", work, number + more) for more in range(3)])


async def reruns(table: Table) -> None:
    """Run agents again from their record, and compare each with its first run."""
    firsts, again = [], []
    for turn in range(ROUNDS + 1):
        async with Node.in_memory(MemoryLog(partitions=4)) as node:
            ids = [f"run-{number}" for number in range(RUNS)]
            began = time.perf_counter()
            await asyncio.gather(*(node.run(triage, name, 1) for name in ids))
            middle = time.perf_counter()
            found = [one.rerun async for one in node.rerun_many(triage, ids, concurrency=50)]
            ended = time.perf_counter()
            assert all(one is not None and one.difference.same_calls == 4 for one in found)
        if turn:
            firsts.append(RUNS / (middle - began))
            again.append(RUNS / (ended - middle))
    table.row(what=f"{RUNS} runs again from the record, in memory", runs_per_s=p50(again), first_runs_per_s=p50(firsts))
    table.at_least("reruns from the record a second, in memory", bar=RERUN_BAR, value=p50(again))


def write(settings: Settings, length: int) -> None:
    """Write the history of one process, with its view and its checkpoint."""
    fleet = Fleet(settings)
    fleet.write([fleet.claim("case")])
    fleet.write([fleet.entry("case", number, f"k{number % VALUES}") for number in range(1, length)])
    fleet.keep()
    fleet.recovery.close()


async def measure(table: Table, node: Node, length: int) -> None:
    """Measure all rows of one length of history."""
    forks = iter(f"fork-{number}" for number in range(10_000))
    news = iter(f"new-{number}" for number in range(10_000))

    async def fork() -> None:
        async with node.fork("case", next(forks)):
            pass

    async def past_fork() -> None:
        async with node.fork("case", next(forks), at=length // 2):
            pass

    async def new() -> None:
        async with node.open(next(news)):
            pass

    async def rewind() -> None:
        await node.rewind("fork-0", 1)

    async def diff() -> None:
        found = await node.diff("case", f"case@{length // 2}")
        assert found.left.seq > found.right.seq

    opened = await times(new, OFTEN)
    taken = await times(fork, OFTEN)
    row(
        table, "fork as of now", length, taken, opening_p50_ms=p50(opened), times_raw=times_raw(p50(taken), p50(opened))
    )
    table.at_most(f"fork of {length} entries, p50 ms", bar=FORK_BAR_MS, value=p50(taken))
    row(table, "rewind a fork to its first entry", length, await times(rewind, OFTEN))
    row(table, "fork at the middle", length, await times(past_fork, SELDOM, 1))
    row(table, "diff of now and the middle", length, await times(diff, SELDOM, 1))


def row(table: Table, what: str, history: int, taken: list[float], **cells: float) -> None:
    """Add a row of milliseconds."""
    table.row(what=what, history=history, p50_ms=p50(taken), p99_ms=p99(taken), **cells)


async def times(call: Callable[[], Awaitable[None]], count: int, warm_up: int = WARM_UP) -> list[float]:
    """Return the milliseconds of each call once it is warm."""
    taken = []
    for _ in range(warm_up + count):
        began = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - began) * 1_000)
    return taken[warm_up:]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
