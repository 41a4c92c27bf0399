"""Recovery on a warm node: by view, by checkpoint with 10, 1,000 and 10,000 foreign entries in the tail.

At 10^3 and 10^5 entries of history (--full: 10^6 too): it must cost the same. Beside it, in the same run: a raw warm
consumer that is assigned to the last ten entries and reads them. And a client that reads processes that do not exist.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from itertools import count

from confluent_kafka import Consumer, Producer, TopicPartition

from _table import Table, arguments, p50, p99, progress
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.consumers import Recovery, Tier
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.producers import Client
from seekpoint.schemas import Settings
from seekpoint.schemas.bodies import Body, Claim, ContextUpdated
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.wire.codec import encode

ROUNDS, WARM_UP = 300, 50
TAILS = {10: 4.0, 1_000: 5.0, 10_000: 25.0}
_ids = count(1)


async def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="with a history of a million entries")
    options = parser.parse_args()
    table = Table("recovery")
    async with LocalCluster(brokers=1) as cluster:
        for history in (1_000, 100_000, 1_000_000)[: 3 if options.full else 2]:
            settings = cluster.settings(journal=f"recovery-{history}", partitions=1)
            await create_topics(settings)
            await asyncio.to_thread(measure, table, settings, history)
    return table.finish(json=options.json)


def measure(table: Table, settings: Settings, history: int) -> None:
    """All rows of one length of history."""
    progress(f"{history} entries of history")
    fleet = Fleet(settings)
    fleet.write([fleet.claim("case")])
    fleet.write([fleet.entry("case", number, "k") for number in range(1, 101)])
    fleet.write_foreign(history - 101)
    row(table, "unknown process, read by a client", history, asyncio.run(unknown(settings)), 3.0)
    with_view(table, fleet, history)
    for tail, bar in TAILS.items():
        fleet.write_foreign(tail - fleet.tail)
        taken = times(lambda: fleet.recover(Tier.CHECKPOINT))
        row(table, f"checkpoint by pointer, {tail} entries in the tail", history, taken, bar)
        if tail == 10:
            table.row(what="raw consumer, assign + 10 entries", history=history, **spread(times(fleet.raw())))
    fleet.recovery.close()


async def unknown(settings: Settings) -> list[float]:
    """Milliseconds of a client's reads of processes that do not exist, once the client is warm."""
    taken = []
    async with Client.connect(settings) as client:
        for number in range(WARM_UP + ROUNDS):
            began = time.perf_counter()
            await client.recover(f"unknown-{number}", missing_ok=True)
            taken.append((time.perf_counter() - began) * 1000)
    return taken[WARM_UP:]


def with_view(table: Table, fleet: Fleet, history: int) -> None:
    """Save and project everything, then recover by the view."""
    fleet.keep()
    row(table, "view, nothing newer", history, times(lambda: fleet.recover(Tier.VIEW)), 3.0)


def row(table: Table, what: str, history: int, taken: list[float], bar: float) -> None:
    """A row and its bar."""
    table.row(what=what, history=history, **spread(taken))
    table.at_most(f"{what}, {history} entries of history, p50 ms", bar=bar, value=p50(taken))


def spread(taken: list[float]) -> dict[str, float]:
    """p50 and p99."""
    return {"p50_ms": p50(taken), "p99_ms": p99(taken)}


def times(call: Callable[[], object]) -> list[float]:
    """Milliseconds of each call once it is warm."""
    taken = []
    for _ in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1000)
    return taken[WARM_UP:]


class Fleet:
    """One process in a partition of others, its checkpoint and its view."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topic = settings.topic_name("journal")
        self.recovery = Recovery.connect(settings)
        self.recoverer = self.recovery.blocking
        self.tail = 0
        self._foreign = count(1)
        where = {"bootstrap.servers": settings.bootstrap_servers}
        self._producer = Producer({**where, "acks": "all", "linger.ms": 20, "queue.buffering.max.messages": 500_000})
        self._raw = Consumer({**where, "group.id": "raw", "fetch.wait.max.ms": 1, "fetch.queue.backoff.ms": 1})

    def claim(self, process_id: str) -> Entry:
        """The first entry of a process."""
        self._owner = next(_ids).to_bytes(16, "big")
        return self._made(process_id, None, 0, None, Claim(0, "node", "boot"), self._owner)

    def entry(self, process_id: str, seq: int, key: str) -> Entry:
        """An owner's entry."""
        return self._made(process_id, seq, 1, self._owner, ContextUpdated(key, f'"{"x" * 100}{seq}"'), None)

    def _made(
        self, process_id: str, seq: int | None, epoch: int, claim: bytes | None, body: Body, entry_id: bytes | None
    ) -> Entry:
        made = entry_id or next(_ids).to_bytes(16, "big")
        return Entry(made, process_id, seq, epoch, claim, None, 0, None, None, None, body)

    def write(self, entries: list[Entry]) -> None:
        """Append them all."""
        for entry in entries:
            self._produce(entry.process_id.encode(), encode(entry))
        assert self._producer.flush(60) == 0

    def write_foreign(self, number: int) -> None:
        """Entries of another process: the same bytes again and again cost a reader what any others do."""
        value = encode(self.entry("other", 1, "k"))
        for _ in range(number):
            self._produce(b"other", value)
        assert self._producer.flush(120) == 0
        self.tail += number

    def _produce(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                return self._producer.produce(self.topic, value, key, 0)
            except BufferError:
                self._producer.poll(0.1)

    def keep(self) -> None:
        """View and checkpoint of now."""
        log = self.recoverer.log
        state = self.recoverer.recover("case", tier=Tier.SCAN).state
        end = log.watermarks(0).high
        checkpoint = Checkpoint.of("case", 0, state, log.topic_id, log.leader_epoch_at(0, state.offset))
        floor = Floor(offset=end, leader_epoch=log.leader_epoch_at(0, end - 1), topic_id=log.topic_id, since=0)
        positions: list[int] = []
        topic = self.settings.topic_name("checkpoints")
        for key, value in ((b"case", checkpoint.to_bytes()), (FLOOR_KEY, floor.to_bytes())):
            self._producer.produce(
                topic, value, key, 0, on_delivery=lambda _, sent: positions.append(sent.offset() or 0)
            )
        assert self._producer.flush(30) == 0
        view = RedisView(self.settings, 1)
        token = view.install(0, log.topic_id)
        view.put(0, token, {b"case": (state, Pointer(positions[0], end))})
        view.ready(0, token, end - 1, log.leader_epoch_at(0, end - 1))
        view.close()
        self.tail = 0

    def recover(self, tier: Tier) -> None:
        """By this tier; it must have been that one."""
        report = self.recoverer.recover("case", tier=tier).report
        assert (report.tier, report.entries_scanned) == (tier, self.tail), report

    def raw(self) -> Callable[[], None]:
        """A warm consumer that reads the last ten entries."""
        _, high = self._raw.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=10)

        def read() -> None:
            self._raw.assign([TopicPartition(self.topic, 0, high - 10)])
            found = 0
            while found < 10:
                found += self._raw.poll(1) is not None
                found += len(self._raw.consume(100, 0))
            self._raw.unassign()

        return read


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
