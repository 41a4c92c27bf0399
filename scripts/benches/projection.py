"""Projection: entries a second of one projector from a real Kafka into a real Valkey, checkpoints included.

Beside it a raw consume loop over the same topic, and what an entry costs where the conversation is short and long.
``--full`` adds 100,000 idle processes on one partition: what a projector needs to take it, and a cold recovery of one.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import median

import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from _table import Table, arguments, progress, times_raw
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.consumers import Recovery, Tier
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.codec import encode

ENTRIES = 300_000
PROCESSES = 500
TURNS, ROUNDS = 40, 5
LONG, SHORT = 10_000, 10
SERVED_MAX_S = 120.0
IDLE = 100_000
TS = 1_763_780_000_000_000
TEXT = "checking the order, a text of an ordinary length for a message of an agent that does its work well"


class Nobody:
    """Writes no checkpoints: only the view is measured."""

    def commit(self, saves: object, membership: object) -> dict[int, dict[bytes, int]]:
        """Nothing."""
        return {}

    def settle(self) -> None:
        """Nothing."""


class Agent:
    """One process's entries: mostly messages and context, now and then an invocation."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.key = process_id.encode()
        self.claim_id = new_id()
        self.seq = 0

    def next(self, number: int) -> bytes:
        """The next record's value."""
        if self.seq == 0 and number >= 0:
            self.seq = 1
            claim = b.Claim(0, "node", "boot")
            return encode(Entry(self.claim_id, self.process_id, None, 0, None, None, TS, None, None, None, claim))
        body = b.MessageSaid("assistant", TEXT) if number % 3 else b.ContextUpdated(f"key-{number % 7}", f'"{TEXT}"')
        at = max(0, number - 200)
        value = encode(
            Entry(new_id(), self.process_id, self.seq, 1, self.claim_id, at, TS + at, None, None, None, body)
        )
        self.seq += 1
        return value


async def main() -> int:
    """Run all of it."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="also 100,000 idle processes on one partition (minutes)")
    options = parser.parse_args()
    table = Table("projection")
    async with LocalCluster(brokers=1) as cluster:
        await whole_path(cluster, table)
        by_length(cluster, table)
        if options.full:
            await idle(cluster, table)
    return table.finish(json=options.json)


async def whole_path(cluster: LocalCluster, table: Table) -> None:
    """Kafka to Valkey."""
    settings = cluster.settings(journal="projection", partitions=4)
    await create_topics(settings)
    progress(f"writing {ENTRIES:,} entries")
    fill(settings)
    progress("projecting")
    rate, cpu_us, from_start_s = await asyncio.to_thread(served, settings)
    raw = consume_raw(settings)
    table.row(what=f"{PROCESSES} processes", entries_per_s=rate, raw_consume_per_s=raw, times_raw=times_raw(rate, raw))
    table.row(what="processor time of the projector", us_per_entry=cpu_us, loop_us=loop_us())
    table.row(what="from the command to the last entry", s=from_start_s)
    table.row(what="checkpoints written meanwhile", count=checkpoints(settings))
    table.at_least("projection of one projector, entries a second", bar=50_000, value=rate)


def served(settings: Settings) -> tuple[float, float, float]:
    """``seekpoint serve projector`` from the first applied entry on: entries a second, microseconds each; and seconds
    from the command to the last entry."""
    names = {
        "journal": settings.journal,
        "bootstrap_servers": settings.bootstrap_servers,
        "redis_url": settings.redis_url,
    }
    environment = os.environ | {f"SEEKPOINT_{name.upper()}": str(value) for name, value in names.items()}
    command = [sys.executable, "-m", "seekpoint.console", "serve", "projector"]
    view, started = RedisView(settings, settings.partitions), time.perf_counter()
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as service:
        try:
            began_s = first = used_s = 0.0
            while (applied := applied_in(view, settings)) < ENTRIES:
                if service.poll() is not None or time.perf_counter() - started > SERVED_MAX_S:
                    raise SystemExit("the projector did not come to the end")
                if not first and applied:
                    began_s, first, used_s = time.perf_counter(), applied, used_by(service.pid)
                time.sleep(0.01)
            ended_s, used_s, left = time.perf_counter(), used_by(service.pid) - used_s, ENTRIES - first
            return left / (ended_s - began_s), used_s / left * 1e6, ended_s - started
        finally:
            service.terminate()
            view.close()


def used_by(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def applied_in(view: RedisView, settings: Settings) -> int:
    """Entries that the view has."""
    metas = (view.meta(partition) for partition in range(settings.partitions))
    return sum(0 if meta is None or meta.applied is None else meta.applied + 1 for meta in metas)


def checkpoints(settings: Settings) -> int:
    """How many records the checkpoint topic has."""
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "raw"})
    topic = settings.topic_name("checkpoints")
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, n), 10)[1] for n in range(settings.partitions)]
    consumer.close()
    return sum(ends)


def loop_us() -> float:
    """A thousand turns of a plain loop: how fast the machine is just now."""
    began = time.process_time()
    for _ in range(1_000):
        for _ in range(1_000):
            pass
    return (time.process_time() - began) / 1_000 * 1e6


def fill(settings: Settings) -> None:
    """Entries of many processes, as they come from a fleet: a few of one, then another's."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 20, "batch.size": 1_000_000})
    agents, random, written = [Agent(f"case-{number}") for number in range(PROCESSES)], Random(1), 0
    topic = settings.topic_name("journal")
    while written < ENTRIES:
        agent = random.choice(agents)
        partition = partition_of(agent.key, settings.partitions)
        for _ in range(min(random.randint(1, 6), ENTRIES - written)):
            producer.produce(topic, agent.next(written), agent.key, partition)
            written += 1
        producer.poll(0)
        if written % 50_000 < 6:
            producer.flush()
    producer.flush()


def consume_raw(settings: Settings) -> float:
    """Records a second of a loop that does nothing with them."""
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "raw"})
    topic = settings.topic_name("journal")
    consumer.assign([TopicPartition(topic, number, 0) for number in range(settings.partitions)])
    began, count = time.perf_counter(), 0
    while count < ENTRIES:
        count += len(consumer.consume(1_000, 0.1))
    consumer.close()
    return count / (time.perf_counter() - began)


def by_length(cluster: LocalCluster, table: Table) -> None:
    """One process, one message a batch, where its conversation is short and where it is long."""
    settings = cluster.settings(journal="length", partitions=1)
    taken: dict[int, list[float]] = {SHORT: [], LONG: []}
    for number in range(ROUNDS):  # in turns: the machine is another one from second to second
        for length, found in taken.items():
            found.append(cost_at(settings, length, number))
    costs = {length: median(found) for length, found in taken.items()}
    for length, cost in costs.items():
        table.row(what=f"one message after {length:,}", us_per_entry=cost)
    table.at_most("the 10,000th message, times the 10th", bar=1.3, value=times_raw(costs[LONG], costs[SHORT]))


def cost_at(settings: Settings, length: int, number: int) -> float:
    """Microseconds to project one message, alone in its batch: the median of some."""
    log, agent = MemoryLog(partitions=1), Agent("long")
    view = RedisView(settings, 1)
    writes = ThreadPoolExecutor(1)
    source = ProjectionSource(
        log=log,
        topic_id=f"topic-{length}-{number}",
        view=view,
        checkpoints=MemoryCheckpoints(1),
        writer=Nobody(),
        writes=writes,
        on_poison=lambda record, error: None,
        cadence=Cadence(),
    )
    projection = PartitionProjection(0, source)
    while not projection.prepare():
        pass

    def step(count: int) -> float:
        start = projection.position
        for turn in range(count):
            log.append(0, agent.key, agent.next(3 * turn + 1))
        records = [one for batch in log.read(0, start, start + count) for one in batch.records]
        began = time.perf_counter()
        assert projection.project(records, start + count)
        assert projection.flush()
        return time.perf_counter() - began

    for _ in range(0, length, 500):
        step(min(500, length))
    cost = median(step(1) for _ in range(TURNS))
    writes.shutdown()
    view.close()
    return cost * 1e6


async def idle(cluster: LocalCluster, table: Table) -> None:
    """Many processes that do nothing: what they cost whoever takes their partition, and one that is recovered."""
    settings = cluster.settings(journal="idle", partitions=1)
    await create_topics(settings)
    progress(f"writing {IDLE:,} processes")
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 20, "batch.size": 1_000_000})
    for number in range(IDLE):
        agent = Agent(f"idle-{number}")
        for turn in range(3):
            producer.produce(settings.topic_name("journal"), agent.next(turn), agent.key, 0)
        producer.poll(0)
        if number % 20_000 == 0:
            producer.flush()
    producer.flush()
    before = used_memory(settings)
    await taken(settings, table, "projected and saved for the first time")
    table.row(what="Redis memory a process", bytes=(used_memory(settings) - before) / IDLE)
    await taken(settings, table, "assigned, view and checkpoints as they are")
    for tier in (Tier.VIEW, Tier.CHECKPOINT, Tier.SCAN):
        began = time.perf_counter()
        async with Recovery.connect(settings) as recovery:
            found = await recovery.recover(f"idle-{IDLE // 2}", tier=tier)
        table.row(what=f"cold recovery of one by {found.report.tier}", s=time.perf_counter() - began)
    flush_all(settings)
    await taken(settings, table, "assigned, the view is rebuilt")


async def taken(settings: Settings, table: Table, what: str) -> None:
    """A projector takes the partition and brings it up to date."""
    progress(what)
    memory, began = resident(), time.perf_counter()
    await Projector.connect(settings).catch_up(timeout_s=600)
    table.row(what=what, s=time.perf_counter() - began, resident_grown_mb=(resident() - memory) / 1e6)


def resident() -> int:
    """Bytes of this process's memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def used_memory(settings: Settings) -> int:
    """Bytes that Redis says it uses."""
    with redis.Redis.from_url(settings.redis_url or "") as client:
        return int(client.info("memory")["used_memory"])


def flush_all(settings: Settings) -> None:
    """Redis forgets everything."""
    with redis.Redis.from_url(settings.redis_url or "") as client:
        client.flushall()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
