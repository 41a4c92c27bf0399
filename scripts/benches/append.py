"""Appends: one process in series, and 500 at once, beside a raw client on the same cluster in the same run.

Serial appends run with fsync on (flush.messages=1), interleaved with a raw idempotent producer's, so that both see the
same disk. Appends that nobody waits for run beside a raw loop with 1,000 records in flight. Shared
writes are interleaved with an owner's confirmed ones. The many run plain and with fsync; the raw loop
there keeps 500 records of the same bytes in flight.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable

from confluent_kafka import Producer

from _table import Table, arguments, p50, p99, progress, times_raw
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.producers import Node, Process
from seekpoint.schemas import Settings

FSYNC = {"flush.messages": "1"}
SERIAL, PIPELINED, SHARED, MANY, SECONDS = 2_000, 10_000, 1_000, 500, 6.0
VALUE = b"x" * 200


class Raw:
    """A raw idempotent producer, with what Seekpoint sets for its own."""

    def __init__(self, settings: Settings) -> None:
        self.topic = settings.topic_name("journal") + ".raw"
        self.producer = Producer(
            {"bootstrap.servers": settings.bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        )
        self.done = 0

    async def acknowledged(self, _: int) -> None:
        """One record, until it is acknowledged; the event loop stands still."""
        self.done = 0
        self.producer.produce(self.topic, VALUE, key=b"case", partition=0, on_delivery=self._on_delivery)
        while not self.done:
            self.producer.poll(1)

    def many(self, value: bytes, seconds: float, in_flight: int, partitions: int) -> float:
        """Acknowledged records a second with so many in flight."""
        self.done = sent = 0
        began = time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            while sent - self.done < in_flight:
                self.producer.produce(
                    self.topic, value, key=b"case", partition=sent % partitions, on_delivery=self._on_delivery
                )
                sent += 1
            self.producer.poll(0.001)
        return self.done / elapsed

    def _on_delivery(self, error: object, _: object) -> None:
        assert error is None, error
        self.done += 1


class RawThroughAsyncio:
    """The least that an asyncio program pays: a thread that polls, and wakes the loop at each acknowledgement."""

    def __init__(self, settings: Settings) -> None:
        self._raw = Raw(settings)
        self._loop = asyncio.get_running_loop()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    async def __aenter__(self) -> RawThroughAsyncio:
        self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._ends.set()
        await asyncio.to_thread(self._thread.join)

    async def acknowledged(self, _: int) -> None:
        """One record, until it is acknowledged."""
        told = self._loop.create_future()

        def on_delivery(error: object, _: object) -> None:
            self._loop.call_soon_threadsafe(told.set_result, error)

        self._raw.producer.produce(self._raw.topic, VALUE, key=b"case", partition=0, on_delivery=on_delivery)
        assert await told is None

    def _poll(self) -> None:
        while not self._ends.is_set():
            self._raw.producer.poll(0.1)


async def main() -> int:
    """Run all of it."""
    options = arguments(__doc__).parse_args()
    table = Table("append")
    async with LocalCluster(brokers=1) as cluster:
        await serial(cluster, table)
        await pipelined(cluster, table)
        await shared(cluster, table)
        await many(cluster, table, "plain")
        await many(cluster, table, "fsync")
    return table.finish(json=options.json)


async def journal(cluster: LocalCluster, name: str, *, fsync: bool, partitions: int, **more: float) -> Settings:
    """A fresh journal, and a raw topic made like it."""
    settings = cluster.settings(journal=name, partitions=partitions, topic=FSYNC if fsync else {}, **more)
    await create_topics(settings)
    raw_topic(settings, partitions, fsync)
    return settings


def raw_topic(settings: Settings, partitions: int, fsync: bool) -> None:
    """A topic for the raw client, with the same flushing."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    topic = NewTopic(settings.topic_name("journal") + ".raw", partitions, 1, config=FSYNC if fsync else {})
    for future in admin.create_topics([topic]).values():
        future.result()


async def serial(cluster: LocalCluster, table: Table) -> None:
    """One process, one entry after the other, a raw record in between each."""
    settings = await journal(cluster, "serial", fsync=True, partitions=1)
    raw = Raw(settings)
    text = "checking order {}, a text of an ordinary length for a value"
    async with Node.connect(settings) as node, node.open("case") as process:
        ours, theirs = await in_turn(
            SERIAL, lambda index: process.update("status", text.format(index)), raw.acknowledged
        )
    ratio = times_raw(p50(ours), p50(theirs))
    table.row(what="serial, fsync", p50_ms=p50(ours), p99_ms=p99(ours), raw_p50_ms=p50(theirs), times_raw=ratio)
    table.at_most("serial append with fsync, p50, times raw", bar=1.5, value=ratio)


async def pipelined(cluster: LocalCluster, table: Table) -> None:
    """One process, with ``wait=False`` and one flush at the end, beside a raw client with as many in flight."""
    settings = await journal(cluster, "pipelined", fsync=True, partitions=1)
    text = "checking order {}, a text of an ordinary length for a value"
    async with Node.connect(settings) as node, node.open("case") as process:
        await _emitted(process, text, 2_000)
        seconds = await _emitted(process, text, PIPELINED)
    rate = PIPELINED / seconds
    raw_rate = await asyncio.to_thread(Raw(settings).many, VALUE, 3.0, 1_000, 1)
    table.row(
        what=f"{PIPELINED:,} without waiting, fsync", seconds=seconds, appends_per_s=rate, raw_appends_per_s=raw_rate,
        times_raw=times_raw(rate, raw_rate),
    )  # fmt: skip
    table.at_most(f"{PIPELINED:,} appends without waiting, until flushed, seconds", bar=5.0, value=seconds)


async def _emitted(process: Process, text: str, count: int) -> float:
    """Seconds until so many entries are acknowledged."""
    began = time.perf_counter()
    for index in range(count):
        await process.record("emit", text.format(index), wait=False)
    await process.flush()
    return time.perf_counter() - began


async def shared(cluster: LocalCluster, table: Table) -> None:
    """Confirmed writes to one process: by its owner, by the only node that writes, and by two nodes in turn."""
    settings = await journal(cluster, "shared", fsync=True, partitions=1)
    text = "checking order {}, a text of an ordinary length for a value"
    async with Node.connect(settings) as node, Node.connect(settings) as other, node.open("owned") as owned:
        alone = await node.open("alone", shared=True)
        here, there = [await one.open("both", shared=True) for one in (node, other)]

        async def confirmed(index: int) -> None:
            await owned.update("status", text.format(index))
            await owned.confirm()

        async def alternating(index: int) -> None:
            await (here if index % 2 else there).update("status", text.format(index))

        owners, one_node, two_nodes = await in_turn(
            SHARED, confirmed, lambda index: alone.update("status", text.format(index)), alternating
        )
    table.row(what="an owner's update and confirm, fsync", p50_ms=p50(owners), p99_ms=p99(owners))
    for what, taken in (("shared, one node writes", one_node), ("shared, two nodes in turn", two_nodes)):
        table.row(what=f"{what}, fsync", p50_ms=p50(taken), p99_ms=p99(taken), times_owner=p50(taken) / p50(owners))


async def in_turn(count: int, *calls: Callable[[int], Awaitable[object]]) -> list[list[float]]:
    """Milliseconds of each call, one of each after the other; the first 200 rounds warm up."""
    taken: list[list[float]] = [[] for _ in calls]
    for index in range(count):
        for call, times in zip(calls, taken, strict=True):
            began = time.perf_counter()
            await call(index)
            times.append((time.perf_counter() - began) * 1000)
        if index % 100 == 0:
            progress(f"serial {index}/{count}")
    return [times[200:] for times in taken]


async def many(cluster: LocalCluster, table: Table, name: str) -> None:
    """500 processes at once, each one entry in flight."""
    settings = await journal(cluster, f"many-{name}", fsync=name == "fsync", partitions=8, linger_ms=1.0)
    progress(f"many, {name}: opening")
    async with Node.connect(settings) as node:
        processes = await asyncio.gather(*(opened(node, index) for index in range(MANY)))
        progress(f"many, {name}: appending for {SECONDS:.0f} s")
        rate = await for_seconds([loop_of(process) for process in processes])
        await asyncio.gather(*(process.release() for process in processes))
    progress(f"many, {name}: raw client")
    raw_rate = await asyncio.to_thread(Raw(settings).many, VALUE, SECONDS, MANY, 8)
    share = times_raw(rate, raw_rate)
    table.row(what=f"500 at once, {name}", appends_per_s=rate, raw_appends_per_s=raw_rate, times_raw=share)
    if name != "fsync":
        table.at_least(f"500 processes at once, {name}, appends a second", bar=25_000, value=rate)


async def opened(node: Node, index: int) -> Process:
    """One of the many."""
    return await node.open(f"case-{index}")


def loop_of(process: Process) -> Callable[[], Awaitable[object]]:
    """Return the loop that one process goes through."""
    return lambda: process.update("status", "checking the order, a text of an ordinary length for a value")


async def for_seconds(calls: list[Callable[[], Awaitable[object]]]) -> float:
    """Run each call over and over, all at once; calls a second."""
    count, end = 0, time.perf_counter() + SECONDS

    async def over_and_over(call: Callable[[], Awaitable[object]]) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await call()
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*map(over_and_over, calls))
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
