"""kill -9 to the next durable step: fresh interpreter, imports, journal verified, claim, recovery, replay, step.

The clock starts when the new interpreter is started and stops when the first step that was not remembered has ended,
acknowledged, as the agent itself says on its standard output. fsync on. Beside it, in the same run: a raw client that
starts afresh, reads the partition's last record and appends one: what any Python program on Kafka pays.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from _table import Table, arguments, p50, p99, progress, times_raw
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.schemas import Settings

ROUNDS, HISTORY = 15, 1_000
"""Steps of history: two entries each, in turns of ten."""

RESTARTS = (
    ("restart", {"SEEKPOINT_NODE_ID": "restarted"}, 0.35, "restart"),
    ("nameless", dict[str, str](), 0.5, "restart without any configuration"),
)
"""Journal, more of the environment, bar and name: a node that fences by its name, and one that sees who died."""

AGENT = """
import asyncio, os, sys
from seekpoint.producers import Node, agent
done = 0
async def look(number):
    global done
    done += 1
    return number
@agent("case", version="1")
async def work(process, given):
    async for turn in process.turns():
        for number in range(10):
            before = done
            await process.step("look", look, number)
            if before == 0 and done == 1:
                print("stepped", flush=True)
            if done == int(sys.argv[1]):
                print("ready", flush=True)
                await asyncio.sleep(600)
async def main():
    async with Node.connect() as node:
        await node.run(work, "case", None, take_over="SEEKPOINT_NODE_ID" in os.environ)
asyncio.run(main())
"""

RAW = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
servers, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": servers, "group.id": "raw", "fetch.wait.max.ms": 10})
low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
consumer.assign([TopicPartition(topic, 0, high - 1)])
assert consumer.poll(10) is not None
producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
producer.produce(topic, b"x" * 200, partition=0)
assert producer.flush(10) == 0
print("stepped", flush=True)
"""


async def main() -> int:
    """Run it."""
    options = arguments(__doc__).parse_args()
    table = Table("restart")
    async with LocalCluster(brokers=1) as cluster:
        for journal, named, bar, what in RESTARTS:
            settings = cluster.settings(journal=journal, partitions=1, topic={"flush.messages": "1"})
            await create_topics(settings)
            raw_topic(settings)
            ours, raw = await asyncio.to_thread(rounds, settings, named)
            row = {
                "p50_ms": p50(ours),
                "p99_ms": p99(ours),
                "raw_p50_ms": p50(raw),
                "times_raw": times_raw(p50(ours), p50(raw)),
            }
            table.row(what=f"{what} with {HISTORY} steps of history", rounds=len(ours), **row)
            table.at_most(f"kill -9 to the next step, {what}, p50, seconds", bar=bar, value=p50(ours) / 1000)
    return table.finish(json=options.json)


def raw_topic(settings: Settings) -> None:
    """A topic for the raw client, flushed like the journal, with a record to read."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    name = settings.topic_name("journal") + ".raw"
    for future in admin.create_topics([NewTopic(name, 1, 1, config={"flush.messages": "1"})]).values():
        future.result()
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(name, b"x" * 200, partition=0)
    assert producer.flush(30) == 0


def rounds(settings: Settings, named: dict[str, str]) -> tuple[list[float], list[float]]:
    """Milliseconds of each restart, ours and the raw client's in turn."""
    environ = environment(settings) | named
    agent, _ = start(["-c", AGENT, str(HISTORY)], environ)
    wait_line(agent, "ready")
    ours, raw = [], []
    for index in range(ROUNDS):
        progress(f"restart {index + 1}/{ROUNDS}")
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        agent, taken = start(["-c", AGENT, "14"], environ)
        ours.append(taken)
        wait_line(agent, "ready")
        client, taken = start(["-c", RAW, settings.bootstrap_servers, settings.topic_name("journal") + ".raw"], environ)
        client.wait()
        raw.append(taken)
    agent.kill()
    agent.wait()
    return ours[1:], raw[1:]


def start(arguments: list[str], environ: dict[str, str]) -> tuple[subprocess.Popen[str], float]:
    """A new interpreter, and the milliseconds from its start to its line ``stepped``."""
    began = time.perf_counter()
    popen = subprocess.Popen([sys.executable, *arguments], env=environ, stdout=subprocess.PIPE, text=True)
    wait_line(popen, "stepped")
    return popen, (time.perf_counter() - began) * 1000


def wait_line(popen: subprocess.Popen[str], word: str) -> None:
    """Read its output up to the line that begins with ``word``."""
    assert popen.stdout is not None
    for line in popen.stdout:
        if line.startswith(word):
            return
    raise SystemExit(f"a child ended before it said {word!r}: exit code {popen.wait()}")


def environment(settings: Settings) -> dict[str, str]:
    """The children's: where the journal is, and byte code that is kept, as in any installation."""
    where = {
        "SEEKPOINT_JOURNAL": settings.journal,
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "SEEKPOINT_REDIS_URL": settings.redis_url or "",
    }
    left_out = ("PYTHONDONTWRITEBYTECODE", "SEEKPOINT_NODE_ID")
    return {name: value for name, value in os.environ.items() if name not in left_out} | where


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
