"""Staging replay: records a second beside a raw consume-and-produce loop, lateness when paced, memory on a big topic.

Each measurement runs in a process of its own, so that its memory is its own. ``--full`` takes five million records.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from _table import Table, arguments, progress, times_raw
from seekpoint.compose import LocalCluster
from seekpoint.consumers.staging import Pace, Plan, Replay, Selection
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.config.settings import Settings

RECORDS, RECORDS_FULL = 300_000, 5_000_000
PARTITIONS = 4
VALUE = b"an entry of an ordinary length, as agents write them; " * 4
PACED_PER_S, PACED_S = 1_000, 10
GROWTH_MIB_MAX = 64
ROUNDS = 3


def main() -> int:
    """Run all of it, or the one measurement that a child is asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="five million records: about ten minutes")
    parser.add_argument("--child", help="for itself: one measurement, as JSON")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(**json.loads(options.child))))
        return 0
    table = Table("replay")
    with LocalCluster() as cluster:
        count = RECORDS_FULL if options.full else RECORDS
        fill(cluster.bootstrap_servers, count)
        unpaced(cluster.bootstrap_servers, count, table)
        paced(cluster.bootstrap_servers, table)
    return table.finish(json=options.json)


def unpaced(servers: str, count: int, table: Table) -> None:
    """Each the best of some rounds, in turn: a shared machine is not equally busy all the time."""
    rounds = 1 if count > RECORDS else ROUNDS
    results: dict[str, list[dict[str, float]]] = {"raw": [], "copy": []}
    for number in range(rounds):
        for what, found in results.items():
            progress(f"{what}, round {number + 1}: {count:,} records")
            found.append(child(what=what, servers=servers, count=count, target=f"{what}-{number}"))
    raw = max(found["per_s"] for found in results["raw"])
    copy = max(results["copy"], key=lambda found: found["per_s"])
    growth = max(found["growth_mib"] for found in results["copy"])
    ratio = times_raw(copy["per_s"], raw)
    table.row(what="replay, unmasked", records=count, records_per_s=copy["per_s"], raw_per_s=raw, times_raw=ratio)
    table.row(what="the same with comparison and map", records=count, records_per_s=copy["whole_per_s"])
    table.at_least("replay, times a raw consume-and-produce loop", bar=0.5, value=ratio)
    table.at_most("memory growth, MiB", bar=GROWTH_MIB_MAX, value=growth)


def paced(servers: str, table: Table) -> None:
    """Original timing: a thousand records a second over four partitions."""
    progress("paced")
    found = child(what="paced", servers=servers, count=PACED_PER_S * PACED_S, target="paced")
    table.row(what="paced, 1,000/s", late_p50_ms=found["p50_ms"], late_p99_ms=found["p99_ms"])
    table.at_most("lateness at 1,000 records/s, p99 ms", bar=20.0, value=found["p99_ms"])


def child(**what: Any) -> dict[str, float]:
    """One measurement in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(what)], stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(what: str, servers: str, count: int, target: str) -> dict[str, float]:
    """In the child."""
    create(servers, target)
    if what == "raw":
        return {"per_s": raw_loop(servers, count, target)}
    settings = Settings(bootstrap_servers=servers, redis_url=None)
    clusters = {
        name: Cluster(name=name, settings=settings, is_staging=name == "staging") for name in ("prod", "staging")
    }
    plan = Plan()
    if what == "paced":
        plan = Plan(
            pace=Pace(speed=1), selection=Selection(offsets=dict.fromkeys(range(PARTITIONS), (0, count // 4 - 1)))
        )
    with Replay.connect("prod/source", f"staging/{target}", plan, clusters=clusters) as replay:
        before, peak = memory_mib(), [0.0]
        began = time.perf_counter()
        report = replay.run(lambda stats, ranges: peak.append(max(peak.pop(), memory_mib())))
        whole = count / (time.perf_counter() - began)
    assert report.checked
    assert report.sent == count
    growth = {"growth_mib": max(peak[0], memory_mib()) - before}
    return {"per_s": report.records_per_s, "whole_per_s": whole, **growth, **report.lateness}


def raw_loop(servers: str, count: int, target: str) -> float:
    """What anybody would write: idempotent, acknowledged, key, value, partition and time; nothing else is looked at."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "raw", "enable.auto.commit": False})
    consumer.assign([TopicPartition("source", partition, 0) for partition in range(PARTITIONS)])
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    began, done = time.perf_counter(), [0]

    def told(error: Any, message: Any) -> None:
        assert error is None
        done[0] += 1

    read = 0
    while read < count:
        for message in consumer.consume(1_000, 0.1):
            read += 1
            send(producer, target, message, told)
        producer.poll(0)
    while done[0] < count:
        producer.flush(1)
    consumer.close()
    return count / (time.perf_counter() - began)


def send(producer: Producer, target: str, message: Any, told: Any) -> None:
    """One record, once there is room."""
    while True:
        try:
            stamp = message.timestamp()[1]
            producer.produce(
                target, message.value(), message.key(), message.partition(), on_delivery=told, timestamp=stamp
            )
            return
        except BufferError:
            producer.poll(0.01)


def fill(servers: str, count: int) -> None:
    """The source: a millisecond between two records."""
    create(servers, "source")
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "batch.size": 1_000_000})
    start_ms = int(time.time() * 1000) - count
    for number in range(count):
        if number % 50_000 == 0:
            progress(f"writing {number:,} of {count:,} records")
            producer.flush()
        key = b"case-%d" % (number % 500)
        producer.produce("source", VALUE, key, number % PARTITIONS, timestamp=start_ms + number)
    producer.flush()


def create(servers: str, topic: str) -> None:
    """A topic."""
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)], operation_timeout=20).values():
        made.result(20)


def memory_mib() -> float:
    """What this process holds in memory now."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
