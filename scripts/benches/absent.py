"""Reads of processes that do not exist, in journals of a million entries, on Kafka and in a file.

Each row is one read by a warm node or client: the first ones of a partition prove which processes it has. Beside them,
in the same run: a read of a process that exists, by the same node.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from _table import Table, arguments, p50, p99, progress
from append import journal
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.compose import LocalCluster
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.errors import UnknownProcess
from seekpoint.producers import Client, Node
from seekpoint.schemas import Settings
from seekpoint.schemas.bodies import Claim, ContextUpdated
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.log.log_ports import ProducerRecord
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.codec import encode

PARTITIONS, PROCESSES, ROUNDS, WARM_UP, BAR_MS, CHUNK = 8, 1_000, 200, 60, 3.0, 20_000


async def main() -> int:
    """Measure, print, and say whether the limits were held."""
    parser = arguments(__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000, help="the length of each journal")
    options = parser.parse_args()
    table = Table("absent")
    with tempfile.TemporaryDirectory(prefix="seekpoint-absent-") as folder:
        settings = Settings(journal_url=f"sqlite:///{folder}/runs.db", redis_url=None, partitions=PARTITIONS)
        fill_file(Path(folder) / "runs.db", settings, options.entries)
        await measure(table, settings, f"{options.entries:,} entries in a file")
    async with LocalCluster(brokers=1) as cluster:
        settings = await journal(cluster, "absent", fsync=False, partitions=PARTITIONS)
        fill_kafka(settings, options.entries)
        await measure(table, settings, f"{options.entries:,} entries on Kafka")
    return table.finish(json=options.json)


def entries(number: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values: a thousand processes, which write in turn."""
    ids = count(1)
    claims = [next(ids).to_bytes(16, "big") for _ in range(PROCESSES)]
    for index in range(number):
        seq, at = divmod(index, PROCESSES)
        name = f"other-{at}"
        body: Any = ContextUpdated("status", f'"{"x" * 100}{seq}"') if seq else Claim(0, "node", "boot")
        if seq:
            made = Entry(next(ids).to_bytes(16, "big"), name, seq, 1, claims[at], None, 0, None, None, None, body)
        else:
            made = Entry(claims[at], name, None, 0, None, None, 0, None, None, None, body)
        yield name.encode(), encode(made)


def fill_file(path: Path, settings: Settings, number: int) -> None:
    """Write the entries through the log of a file."""
    file, reports = SqliteFile(path, settings), list[Any]()
    log = SqliteLog(file, settings)
    appender, made = log.appender(reports.extend), entries(number)
    while part := [ProducerRecord(partition_of(key, PARTITIONS), key, value, 0) for key, value in islice(made, CHUNK)]:
        while part:
            part = part[appender.send(part) :]
            time.sleep(0.01 if part else 0.0)
        progress(f"file: {len(reports):,} of {number:,} entries")
    appender.retire(120.0)
    assert [one.error for one in reports] == [None] * number
    log.close()


def fill_kafka(settings: Settings, number: int) -> None:
    """Write the entries by a raw producer."""
    where = {"bootstrap.servers": settings.bootstrap_servers}
    producer = Producer({**where, "acks": "all", "linger.ms": 20, "queue.buffering.max.messages": 500_000})
    for done, (key, value) in enumerate(entries(number)):
        producer.produce(settings.topic_name("journal"), value, key, partition_of(key, PARTITIONS))
        if done % CHUNK == 0:
            progress(f"Kafka: {done:,} of {number:,} entries")
            producer.flush(60)
    assert producer.flush(60) == 0


async def measure(table: Table, settings: Settings, where: str) -> None:
    """Measure each kind of read."""
    async with Node.connect(settings) as node:
        saver = SeekpointSaver(node)

        async def thread() -> None:
            assert await saver.aget_tuple({"configurable": {"thread_id": uuid4().hex}}) is None

        async def recover() -> None:
            assert not (await node.recover(uuid4().hex, missing_ok=True)).known

        async def listed() -> None:
            with suppress(UnknownProcess):
                async for _ in node.entries(uuid4().hex):
                    raise AssertionError

        async def existing() -> None:
            assert (await node.recover("other-7")).known

        for what, call in {"recover": recover, "entries": listed, "get_tuple of a new thread": thread}.items():
            await row(table, f"{what}, {where}", call, bar=BAR_MS)
        await row(table, f"a process that exists, {where}", existing, rounds=20, warm_up=2)
    async with Client.connect(settings) as client:

        async def status() -> None:
            assert (await client.status(uuid4().hex)).stage == "unknown"

        await row(table, f"status, {where}", status, bar=BAR_MS)


async def row(
    table: Table, what: str, call: Callable[[], Awaitable[None]], *, bar: float | None = None, rounds: int = ROUNDS,
    warm_up: int = WARM_UP,
) -> None:  # fmt: skip
    """Time a call, warm, and its first time."""
    progress(what)
    taken = []
    for number in range(warm_up + rounds):
        if number == warm_up:
            await asyncio.sleep(2.0)  # the proofs of the partitions are made beside the reads
        began = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - began) * 1000)
    warm = taken[warm_up:]
    table.row(what=what, p50_ms=p50(warm), p99_ms=p99(warm), first_ms=taken[0])
    if bar is not None:
        table.at_most(f"{what}, p50 ms", bar=bar, value=p50(warm))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
