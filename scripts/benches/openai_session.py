"""Sessions of the OpenAI Agents SDK beside the SDK's SQLiteSession, in one run, each with synchronised commits.

The sessions take turns at each call. A turn of a conversation adds two items. ``get_items`` reads the newest 10 of
1,000 items.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from agents import SQLiteSession
from agents.items import TResponseInputItem
from agents.memory import Session

from _table import Table, arguments, p50, p99
from append import in_turn, journal
from seekpoint.adapters.openai_agents import SeekpointSession
from seekpoint.compose import LocalCluster
from seekpoint.producers import Node

TURNS, READS, ITEMS = 1_000, 700, 1_000


async def main() -> int:
    """Measure, print, and say whether the limit was held."""
    options = arguments(__doc__).parse_args()
    table = Table("openai_session")
    with tempfile.TemporaryDirectory(prefix="seekpoint-sessions-") as folder:
        async with LocalCluster(brokers=1) as cluster:
            settings = await journal(cluster, "sessions", fsync=True, partitions=1)
            async with Node.connect(settings) as on_kafka, Node.local(Path(folder) / "journal.db") as in_a_file:
                await measure(table, Path(folder) / "sqlite.db", in_a_file, on_kafka)
    return table.finish(json=options.json)


async def measure(table: Table, path: Path, in_a_file: Node, on_kafka: Node) -> None:
    """Let the sessions take turns."""

    def sessions(name: str) -> list[Session]:
        return [SQLiteSession(name, path), SeekpointSession(name, in_a_file), SeekpointSession(name, on_kafka)]

    adding, reading = sessions("adding"), sessions("reading")
    for session in reading:
        for number in range(0, ITEMS, 2):
            await session.add_items(turn(number))
    added = await in_turn(TURNS, *(adds(session) for session in adding))
    read = await in_turn(READS, *(reads(session) for session in reading))
    for what, (sqlite, file, kafka) in (("add_items of two items", added), ("get_items(limit=10) of 1,000", read)):
        for name, taken in (("SQLiteSession", sqlite), ("in a file", file), ("on Kafka", kafka)):
            table.row(what=f"{what}: {name}", p50_ms=p50(taken), p99_ms=p99(taken), times=p50(taken) / p50(sqlite))
    table.at_most("add_items in a file, p50, ms", bar=1.0, value=p50(added[1]))
    for session in (*adding, *reading):
        if isinstance(session, SQLiteSession):
            session.close()


def turn(number: int) -> list[TResponseInputItem]:
    """The two items of one turn."""
    return [
        {"role": "user", "content": f"Where is my order {number}? It should have been here days ago."},
        {"role": "assistant", "content": f"Your order {number} left our house on Monday, and will be with you soon."},
    ]


def adds(session: Session) -> Callable[[int], Awaitable[object]]:
    """Return the call that adds a turn."""
    return lambda number: session.add_items(turn(number))


def reads(session: Session) -> Callable[[int], Awaitable[object]]:
    """Return the call that reads the newest items."""
    return lambda _: session.get_items(limit=10)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
