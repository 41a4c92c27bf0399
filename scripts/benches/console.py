"""What an idle web console costs beside 10,000 processes: memory, and the share of a core with 0, 1 and 100 viewers.

On Kafka with the view in Redis, and without Redis, where it reads the log. A viewer holds the stream of the list open.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path

import httpx

from _table import Table, arguments, progress
from assignment import write
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.schemas import Settings

PROCESSES, WATCHED_S, SETTLED_S = 10_000, 10.0, 8.0
CORE_BAR, MEMORY_BAR_MB = 0.02, 150.0
_TICKS_S = os.sysconf("SC_CLK_TCK")


async def main() -> int:
    """Run it."""
    options = arguments(__doc__).parse_args()
    table = Table("console")
    async with LocalCluster(brokers=1) as cluster:
        settings = cluster.settings(journal="console", partitions=1)
        await create_topics(settings)
        progress(f"writing {PROCESSES:,} processes")
        with closing(KafkaReader(settings)) as log, closing(RedisView(settings, 1)) as view:
            await asyncio.to_thread(write, settings, log, view, PROCESSES)
        for source in ("view", "log"):
            progress(f"a console that reads the {source}")
            await measure(table, settings, source)
    return table.finish(json=options.json)


async def measure(table: Table, settings: Settings, source: str) -> None:
    """Both figures of one source."""
    with running(settings, source) as (url, pid):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60.0, limits=NO_LIMITS))
            began = time.perf_counter()
            found = (await client.get("/api/processes")).json()
            while found["source"]["loading"] or not found["total"]:
                found = (await client.get("/api/processes")).json()
            loaded_s = time.perf_counter() - began
            assert (found["source"]["name"], found["total"]) == (source, PROCESSES + 10), found["source"]
            shares = []
            for viewers in (0, 1, 99):
                for _ in range(viewers):
                    answer = await stack.enter_async_context(client.stream("GET", "/events/processes"))
                    assert answer.status_code == 200
                await asyncio.sleep(SETTLED_S if viewers else 35.0)  # it reads on for a while after the last request
                shares.append(await share_of_a_core(pid))
            memory_mb = resident_mb(pid)
    nobody, one, hundred = shares
    table.row(
        what=f"reads the {source}", loaded_s=loaded_s, memory_mb=memory_mb, nobody_core=nobody, one_viewer_core=one,
        hundred_viewers_core=hundred,
    )  # fmt: skip
    table.at_most(f"reads the {source}, one viewer, share of a core", bar=CORE_BAR, value=one)
    table.at_most(f"reads the {source}, memory, MB", bar=MEMORY_BAR_MB, value=memory_mb)


NO_LIMITS = httpx.Limits(max_connections=None)


@contextmanager
def running(settings: Settings, source: str) -> Iterator[tuple[str, int]]:
    """Run ``seekpoint console``; yield its address and its process id."""
    redis = settings.redis_url if source == "view" else "none"
    given = {
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers, "SEEKPOINT_REDIS_URL": redis or "none",
        "SEEKPOINT_JOURNAL": settings.journal,
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "seekpoint", "console", "--port", "0", "--json"], env=os.environ | given,
        stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        try:
            yield json.loads(program.stdout.readline())["address"].rstrip("/"), program.pid
        finally:
            program.terminate()


async def share_of_a_core(pid: int) -> float:
    """Processor time of a process over the wall's, for some seconds."""
    before, began = ticks(pid), time.perf_counter()
    await asyncio.sleep(WATCHED_S)
    return (ticks(pid) - before) / _TICKS_S / (time.perf_counter() - began)


def ticks(pid: int) -> int:
    """Clock ticks of user and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident_mb(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1_000_000


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
