"""What agents' runs take in Kafka: journaled on a local cluster, projected once, then measured.

RUNS.jsonl.gz has one JSON object a line: ``run_id`` and ``messages`` in OpenAI's form. Each run is a process: a claim,
two changes of lifecycle, its messages, a context value, a release. Disk is what the broker's segments hold.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from _table import Table, arguments, p50, p99
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.consumers import Projector
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.producers import Node
from seekpoint.schemas import Settings

Run = dict[str, Any]


async def journal(settings: Settings, runs: list[Run]) -> None:
    """Write them all, twenty-five at a time."""
    gate = asyncio.Semaphore(25)

    async def one(node: Node, run: Run) -> None:
        async with gate, node.open(run["run_id"]) as process:
            await process.transition("starting")
            await process.transition("running")
            for message in run["messages"]:
                more = {name: message[name] for name in ("tool_calls", "tool_call_id", "name") if message.get(name)}
                await process.say(message["role"], message.get("content"), **more)
            await process.update("status", "done")

    async with Node.connect(settings) as node:
        await asyncio.gather(*(one(node, run) for run in runs))


def entry_widths(reader: KafkaReader) -> dict[str, list[float]]:
    """Bytes of key and value of every entry, by kind."""
    found: dict[str, list[float]] = {}
    for partition in range(reader.partitions):
        low, high = reader.watermarks(partition)
        for batch in reader.read(partition, low, high):
            for record in batch.records:
                kind = reader.codec.decode(record.value).kind
                found.setdefault(kind, []).append(len(record.key or b"") + len(record.value or b""))
    return found


def checkpoint_widths(reader: KafkaReader) -> list[float]:
    """Bytes of every process's newest checkpoint, key included."""
    newest: dict[bytes, float] = {}
    kept = reader.checkpoints()
    for partition in range(reader.partitions):
        for _, key, value in kept.records(partition, 0, kept.stable_end(partition)):
            if key != FLOOR_KEY:
                newest[key] = len(key) + len(value or b"")
    return list(newest.values())


def on_disk(cluster: LocalCluster, topic: str) -> int:
    """Bytes of the topic's segments."""
    return sum(file.stat().st_size for file in cluster.directory.glob(f"**/{topic}-*/*.log"))


async def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("runs", type=Path, metavar="RUNS.jsonl.gz")
    parser.add_argument("--compression", default="none", metavar="CODEC", help="compression.type of the producer")
    options = parser.parse_args()
    with gzip.open(options.runs, "rt") as lines:
        runs = [json.loads(line) for line in lines]
    table = Table("sizing")
    async with LocalCluster(brokers=1) as cluster:
        settings = cluster.settings(journal="sizing", partitions=4)
        settings = replace(settings, kafka_producer={"compression.type": options.compression})
        await create_topics(settings)
        await journal(settings, runs)
        async with Projector.connect(settings) as projector:
            await projector.catch_up()
        await asyncio.to_thread(measure, table, cluster, settings)
    return table.finish(json=options.json)


def measure(table: Table, cluster: LocalCluster, settings: Settings) -> None:
    """A row a kind, then the totals."""
    reader = KafkaReader(settings)
    by_kind, checkpoints = entry_widths(reader), checkpoint_widths(reader)
    reader.close()
    everything = [width for widths in by_kind.values() for width in widths]
    for what, widths in [*sorted(by_kind.items()), ("all entries", everything), ("a checkpoint", checkpoints)]:
        mean = sum(widths) / len(widths)
        table.row(what=what, count=len(widths), mean_bytes=mean, p50_bytes=p50(widths), p99_bytes=p99(widths))
    for kind in ("journal", "checkpoints"):
        size = on_disk(cluster, settings.topic_name(kind))
        table.row(
            what=f"on disk, {kind}", count=size, mean_bytes=size / len(everything if kind == "journal" else checkpoints)
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
