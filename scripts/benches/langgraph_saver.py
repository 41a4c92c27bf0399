"""The checkpointer for LangGraph beside its SQLite and Postgres savers, in one run, each with synchronised commits.

A step is one node and its checkpoint; a graph waits for each of them (``durability="sync"``). The savers take turns,
in rounds. The Postgres saver needs a PostgreSQL on the machine, and the packages
``langgraph-checkpoint-postgres`` and ``psycopg[binary]``: without them it is left out, and a row says why.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from _langgraph import threads_of
from _postgres import NoPostgresError, postgres
from _rival_program import STEPS, seconds_at_once
from _table import Table, arguments, p50, progress
from append import journal
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.compose import LocalCluster
from seekpoint.producers import Node

ROUNDS, CHAIN, RUNS, ENTRIES, NEW_THREADS = 5, 200, 200, 100_000, 50
STEP_TIMES, RUNS_TIMES, NEW_THREAD_MS = 0.9, 1.3, 3.0

Saver = Callable[[], AbstractAsyncContextManager[Any]]


async def main() -> int:
    """Measure, print, and say whether the limits were held."""
    options = arguments(__doc__).parse_args()
    table = Table("langgraph_saver")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seekpoint-savers-")))
        async with LocalCluster(brokers=1) as cluster:
            settings = await journal(cluster, "savers", fsync=True, partitions=8)
            others: dict[str, Saver] = {"AsyncSqliteSaver": lambda: sqlite(folder / f"{uuid4()}.db")}
            try:
                import_module("langgraph.checkpoint.postgres.aio")
                address = stack.enter_context(postgres())
                others["AsyncPostgresSaver"] = lambda: on_postgres(address)
            except (ImportError, NoPostgresError) as exc:
                table.row(what=f"AsyncPostgresSaver: not measured, {exc}")
            ours: dict[str, Saver] = {
                "SeekpointSaver, in a file": lambda: seekpoint(Node.local(folder / f"{uuid4()}.journal")),
                "SeekpointSaver, on Kafka": lambda: seekpoint(Node.connect(settings)),
            }
            await compare(table, others, ours)
            await new_threads(table, cluster)
    return table.finish(json=options.json)


async def compare(table: Table, others: dict[str, Saver], ours: dict[str, Saver]) -> None:
    """Measure all savers in turn, and hold ours to the better of the others."""
    steps: dict[str, list[float]] = {name: [] for name in (*others, *ours)}
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(ROUNDS):
        for name, saver in {**others, **ours}.items():
            progress(f"round {number + 1} of {ROUNDS}: {name}")
            async with saver() as one:
                steps[name].append(await step_ms(one))
                rates[name].append(RUNS / await seconds_at_once(new_runs(one, f"{name}-{number}"), RUNS))
    for name in steps:
        table.row(what=name, step_p50_ms=median(steps[name]), runs_per_s=median(rates[name]))
    best_step = min(median(steps[name]) for name in others)
    best_rate = max(median(rates[name]) for name in others)
    for name in ours:
        table.at_most(f"{name}: step, times the better", bar=STEP_TIMES, value=median(steps[name]) / best_step)
        table.at_least(f"{name}: runs/s, times the better", bar=RUNS_TIMES, value=median(rates[name]) / best_rate)


async def step_ms(saver: Any) -> float:
    """Return the milliseconds of a step, p50."""
    taken: list[float] = []
    await threads_of(saver, CHAIN, lambda: taken.append(time.perf_counter()))(f"chain-{uuid4()}")
    return p50([(late - early) * 1000 for early, late in pairwise(taken[50:])])


def new_runs(saver: Any, prefix: str) -> Callable[[str], Awaitable[None]]:
    """Return a function that runs a new thread of three steps, by a name that is new in this round."""
    run = threads_of(saver, STEPS, lambda: None)
    return lambda name: run(f"{prefix}-{name}")


async def new_threads(table: Table, cluster: LocalCluster) -> None:
    """Measure how long a read of a thread takes that does not exist, in a journal with many entries."""
    settings = await journal(cluster, "many-threads", fsync=False, partitions=8)
    async with Node.connect(settings) as node:
        processes = [await node.open(f"other-{number}") for number in range(8)]
        for index in range(ENTRIES // 8):
            await asyncio.gather(*(process.update("status", f"order {index}") for process in processes))
            if index % 250 == 0:
                progress(f"{index * 8} of {ENTRIES} entries")
        for process in processes:
            await process.release()
    async with Node.connect(settings) as node:
        saver, taken = SeekpointSaver(node), []
        for number in range(NEW_THREADS):
            began = time.perf_counter()
            found = await saver.aget_tuple({"configurable": {"thread_id": f"new-{number}"}})
            taken.append((time.perf_counter() - began) * 1000)
            assert found is None
    table.row(what=f"get_tuple of a new thread, {ENTRIES:,} entries, Kafka", step_p50_ms=p50(taken))
    table.at_most("get_tuple of a new thread, ms", bar=NEW_THREAD_MS, value=p50(taken))


@asynccontextmanager
async def sqlite(path: Path) -> AsyncIterator[Any]:
    """Give LangGraph's SQLite saver; each commit is synchronised with the disk."""
    savers: Any = import_module("langgraph.checkpoint.sqlite.aio")
    async with savers.AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.conn.execute("PRAGMA synchronous = FULL")
        yield saver


@asynccontextmanager
async def on_postgres(address: str) -> AsyncIterator[Any]:
    """Give LangGraph's Postgres saver, with a pool of connections."""
    savers: Any = import_module("langgraph.checkpoint.postgres.aio")
    pools: Any = import_module("psycopg_pool")
    async with pools.AsyncConnectionPool(
        address, max_size=20, kwargs={"autocommit": True, "prepare_threshold": 0}, open=False
    ) as pool:
        saver = savers.AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


@asynccontextmanager
async def seekpoint(node: Node) -> AsyncIterator[Any]:
    """Give our saver."""
    async with node:
        yield SeekpointSaver(node)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
