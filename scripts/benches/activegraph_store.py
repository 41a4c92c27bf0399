"""Events of ActiveGraph in a journal on Kafka beside its SQLiteEventStore, in one run.

Each emit is one event of a graph. ActiveGraph's store does not wait for the disk (``synchronous=NORMAL``). The broker
writes each record to its disk before it acknowledges it. "raw" sends records of that size with an idempotent
producer that waits for each.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from activegraph import Event, FrozenClock, Graph, Runtime
from confluent_kafka import Producer

from _table import Table, arguments, progress
from append import journal
from seekpoint.adapters.activegraph import SeekpointRuns
from seekpoint.compose import LocalCluster
from seekpoint.producers import SyncNode
from seekpoint.schemas import Settings

EVENTS = 10_000
ACKNOWLEDGED_S, PIPELINED_S, LOAD_S = 12.0, 5.0, 1.0


async def main() -> int:
    """Measure, print, and say whether the limits were held."""
    options = arguments(__doc__).parse_args()
    table = Table("activegraph_store")
    with tempfile.TemporaryDirectory(prefix="seekpoint-activegraph-") as folder:
        async with LocalCluster(brokers=1) as cluster:
            settings = await journal(cluster, "activegraph", fsync=True, partitions=1)
            await asyncio.to_thread(measure, table, Path(folder), settings)
    return table.finish(json=options.json)


def measure(table: Table, folder: Path, settings: Settings) -> None:
    """Emit the same events into each store, then load each run."""
    raw_s = sent_raw(settings)
    table.row(what="raw producer, one record at a time", emits_s=raw_s)
    emit_s, load_s = measured(str(folder / "runs.db"))
    table.row(what="SQLiteEventStore, does not wait for the disk", emits_s=emit_s, load_s=load_s)
    with SyncNode.local(folder / "journal.db") as node:
        emit_s, load_s = measured(SeekpointRuns(node).path)
        table.row(what="in a file, each emit acknowledged, on the disk", emits_s=emit_s, load_s=load_s)
    with SyncNode.connect(settings) as node:
        emit_s, load_s = measured(SeekpointRuns(node).path)
        table.row(what="on Kafka, each emit acknowledged", emits_s=emit_s, load_s=load_s, times_raw=emit_s / raw_s)
        with SeekpointRuns(node, unacknowledged_max=1_000) as runs:
            pipelined_s, pipelined_load_s = measured(runs.path)
        what = "on Kafka, pipelined, a crash may lose up to 1,000 events"
        table.row(what=what, emits_s=pipelined_s, load_s=pipelined_load_s)
    table.at_most(f"{EVENTS:,} emits on Kafka, acknowledged, s", bar=ACKNOWLEDGED_S, value=emit_s)
    table.at_most(f"{EVENTS:,} emits on Kafka, pipelined, s", bar=PIPELINED_S, value=pipelined_s)
    table.at_most(f"load of {EVENTS:,} events from Kafka, s", bar=LOAD_S, value=load_s)


def measured(path: str) -> tuple[float, float]:
    """Return the seconds of all emits until the last one is acknowledged, and those of a load."""
    progress(f"emits into {path}")
    graph = Graph(clock=FrozenClock())
    runtime = Runtime(graph, persist_to=path, behaviors=[])
    begin = time.perf_counter()
    for number in range(EVENTS):
        graph.emit(an_event(graph, number))
    runtime.save_state()
    emitted = time.perf_counter()
    loaded = Runtime.load(path, runtime.run_id, behaviors=[])
    assert len(loaded.graph.events) == EVENTS
    return emitted - begin, time.perf_counter() - emitted


def an_event(graph: Graph, number: int) -> Event:
    """Return an event such as a sensor makes."""
    payload = {"sensor": "north", "number": number, "value": number / 7, "text": "measured by the sensor in the north"}
    return Event(id=graph.ids.event(), type="measured", payload=payload, actor="bench", timestamp=graph.clock.now())


def sent_raw(settings: Settings) -> float:
    """Return the seconds of as many records of the same size, each acknowledged before the next one is sent."""
    progress("raw producer")
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0})
    begin = time.perf_counter()
    for _ in range(EVENTS):
        producer.produce(settings.topic_name("journal") + ".raw", b"x" * 350)
        producer.flush()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
