"""The store for LangGraph beside its SQLite store, in one run: searches of one user, and of the newest of all users.

Each store has 10,000 namespaces. The reads are those of a program that goes on, of one that has just begun, and of one
that reads what another node has written just now. On Kafka there is no view: a program's first read is one of the log.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp

from _table import Table, arguments, p50, progress
from append import journal
from seekpoint.adapters.langgraph import SeekpointStore
from seekpoint.compose import LocalCluster
from seekpoint.producers import Node

NAMESPACES, READS, AT_ONCE = 10_000, 40, 100
USER = f"{NAMESPACES // 2:05}"
WARM_MS = 5.0

Opened = Callable[[], Node]


async def main() -> int:
    """Measure, print, and say whether the limits were held."""
    parser = arguments(__doc__)
    parser.add_argument("--file-only", action="store_true", help="without Kafka")
    options = parser.parse_args()
    table = Table("langgraph_store")
    with tempfile.TemporaryDirectory(prefix="seekpoint-stores-") as name:
        folder = Path(name)
        sqlite = await rival(table, folder)
        await measure(table, "SeekpointStore, in a file", lambda: Node.local(folder / "journal.db"), sqlite)
        if not options.file_only:
            async with LocalCluster(brokers=1) as cluster:
                settings = await journal(cluster, "stores", fsync=False, partitions=8)
                await measure(table, "SeekpointStore, on Kafka", lambda: Node.connect(settings), sqlite)
    return table.finish(json=options.json)


async def rival(table: Table, folder: Path) -> dict[str, float]:
    """Measure LangGraph's SQLite store; return its times by search."""
    stores: Any = import_module("langgraph.store.sqlite.aio")
    async with stores.AsyncSqliteStore.from_conn_string(str(folder / "sqlite.db")) as store:
        await store.setup()
        await fill(store, "AsyncSqliteStore")
        times = {name: p50([await ms(search(store)) for _ in range(READS)]) for name, search in SEARCHES.items()}
    for name, taken in times.items():
        table.row(what="AsyncSqliteStore", search=name, p50_ms=taken)
    return times


async def measure(table: Table, what: str, opened: Opened, sqlite: dict[str, float]) -> None:
    """Measure ours, and hold it to the limits."""
    async with opened() as node:
        await fill(SeekpointStore(node), what)
    for name, search in SEARCHES.items():
        progress(f"{what}: {name}")
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(opened()) for _ in range(2)]
            store, other = map(SeekpointStore, nodes)
            first = await ms(search(store))
            warm = p50([await ms(search(store)) for _ in range(READS)])
            after = []
            for number in range(READS):
                await other.aput(("users", USER), "note", {"n": number})
                after.append(await ms(search(store)))
        table.row(
            what=what, search=name, p50_ms=warm, times_sqlite=warm / sqlite[name], first_ms=first,
            after_other_node_ms=p50(after),
        )  # fmt: skip
        table.at_most(f"{what}: {name}, p50, ms", bar=WARM_MS, value=warm)
        table.at_most(f"{what}: {name}, after another node's write, p50, ms", bar=WARM_MS, value=p50(after))


async def fill(store: Any, what: str) -> None:
    """Put one item into each namespace."""
    for start in range(0, NAMESPACES, AT_ONCE):
        progress(f"{what}: {start} of {NAMESPACES} namespaces")
        numbers = range(start, start + AT_ONCE)
        await store.abatch([PutOp(("users", f"{number:05}"), "note", {"n": number}) for number in numbers])


async def ms(search: Awaitable[Any]) -> float:
    """Return how many milliseconds a search takes that finds something."""
    began = time.perf_counter()
    assert await search
    return (time.perf_counter() - began) * 1_000


SEARCHES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "one user": lambda store: store.asearch(("users", USER)),
    "newest 10 of all users": lambda store: store.asearch(("users",), limit=10),
}


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
