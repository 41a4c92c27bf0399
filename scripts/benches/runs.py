"""Short runs, 50 at once: open a new process, three acknowledged appends, finish (confirmed). fsync on.

On 8 partitions and on 2: what limits is fsyncs a partition. Beside it, in the same run, a raw idempotent producer that
makes as many acknowledged records in 50 chains: each sends a record when its last one is acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from _table import Table, arguments, p50, progress, times_raw
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.producers import Node
from seekpoint.schemas import Settings

FSYNC = {"flush.messages": "1"}
RUNS, AT_ONCE, STEPS, ROUNDS = 300, 50, 3, 9
RECORDS_A_RUN = STEPS + 2
"""The claim, the steps, the end."""
BARS = {8: 900, 2: 1_400}
LINGER_MS = 1.0
"""Fewer, larger batches: what helps with many at once, and costs one process alone a millisecond an append."""
Run = Callable[[Node, str], Awaitable[object]]
"""One run of a process with this id."""
TEXT = "checking the order, a text of an ordinary length for a value"


async def main() -> int:
    """Run it."""
    options = arguments(__doc__).parse_args()
    table = Table("runs")
    async with LocalCluster(brokers=1) as cluster:
        for partitions in BARS:
            await measure(cluster, table, partitions, appends, journal="runs")
    return table.finish(json=options.json)


async def measure(
    cluster: LocalCluster, table: Table, partitions: int, run: Run, *, journal: str, rounds: int = ROUNDS
) -> None:
    """Rounds of 300 runs, ours and the raw client's in turn, so that both see the same disk."""
    name = f"{journal}-{partitions}"
    settings = cluster.settings(journal=name, partitions=partitions, topic=FSYNC, linger_ms=LINGER_MS)
    await create_topics(settings)
    raw = Raw(settings, partitions)
    ours, theirs = [], []
    async with Node.connect(settings) as node:
        for number in range(rounds + 1):
            progress(f"{partitions} partitions: round {number}/{rounds}")
            ours.append(RUNS / await timed_runs(node, f"round-{number}", run))
            theirs.append(RUNS / await asyncio.to_thread(raw.timed))
    rate, raw_rate = p50(ours[1:]), p50(theirs[1:])  # the first round warms up
    table.row(
        what=f"{RUNS} runs x {STEPS} steps, {AT_ONCE} at once, {partitions} partitions, fsync",
        runs_per_s=rate, raw_runs_per_s=raw_rate, times_raw=times_raw(rate, raw_rate),
    )  # fmt: skip
    table.at_least(f"runs a second on {partitions} partitions", bar=BARS[partitions], value=rate)


async def timed_runs(node: Node, name: str, run: Run) -> float:
    """Seconds that 300 runs take, 50 at once."""
    names = iter([f"{name}-{index}" for index in range(RUNS)])

    async def one_after_the_other() -> None:
        for one in names:
            await run(node, one)

    began = time.perf_counter()
    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return time.perf_counter() - began


async def appends(node: Node, name: str) -> None:
    """One run: three acknowledged appends, and its end."""
    process = await node.open(name)
    for step in range(STEPS):
        await process.update(f"step-{step}", TEXT)
    await process.finish({"done": True})


class Raw:
    """A raw idempotent producer with as many chains of acknowledged records."""

    def __init__(self, settings: Settings, partitions: int) -> None:
        self.topic = settings.topic_name("journal") + ".raw"
        self.partitions = partitions
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
        for future in admin.create_topics([NewTopic(self.topic, partitions, 1, config=FSYNC)]).values():
            future.result()
        config = {"acks": "all", "enable.idempotence": True, "linger.ms": LINGER_MS}
        self.producer = Producer({"bootstrap.servers": settings.bootstrap_servers, **config})
        self.left = self.open = 0

    def timed(self) -> float:
        """Seconds that as many records take."""
        self.left, self.open = RUNS * RECORDS_A_RUN, 0
        began = time.perf_counter()
        for chain in range(AT_ONCE):
            self._send(chain)
        while self.open:
            self.producer.poll(1)
        return time.perf_counter() - began

    def _send(self, chain: int) -> None:
        self.left -= 1
        self.open += 1
        self.producer.produce(
            self.topic, b"x" * 200, key=b"case", partition=chain % self.partitions,
            on_delivery=lambda error, _: self._next(chain, error),
        )  # fmt: skip

    def _next(self, chain: int, error: object) -> None:
        assert error is None, error
        self.open -= 1
        if self.left > 0:
            self._send(chain)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
