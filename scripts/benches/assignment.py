"""What a worker reads when a partition is assigned to it: the unfinished processes, among 100,000 that have finished.

By the view's index, and by the checkpoints: at the start of a worker, which reads the heads of all checkpoints, and at
a later rebalance. Beside it, in the same run: the recovery of all processes of the partition. --full: 1,000,000.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice

from confluent_kafka import Producer

from _table import Table, arguments, p50, progress
from seekpoint.compose import LocalCluster, create_topics
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.kafka.kafka_checkpoints import KafkaCheckpoints
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.open_processes import recover_open
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas import Settings
from seekpoint.schemas.bodies import Body, Claim, Finished
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.wire.codec import encode

OPEN, ROUNDS, PUT = 10, 5, 1_000
VIEW_BAR_MS, START_BAR_S, REBALANCE_BAR_MS = 50.0, 10.0, 500.0
_ids = count(1)


async def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="with a million finished processes")
    options = parser.parse_args()
    table = Table("assignment")
    async with LocalCluster(brokers=1) as cluster:
        for finished in (0, 100_000, 1_000_000)[: 3 if options.full else 2]:
            settings = cluster.settings(journal=f"assignment-{finished}", partitions=1)
            await create_topics(settings)
            await asyncio.to_thread(measure, table, settings, finished)
    return table.finish(json=options.json)


def measure(table: Table, settings: Settings, finished: int) -> None:
    """All rows for so many finished processes."""
    progress(f"writing {finished:,} finished processes")
    log, view = KafkaReader(settings), RedisView(settings, 1)
    write(settings, log, view, finished)
    reader = KafkaCheckpoints(log)
    found: list[int] = []
    with_view = Recoverer(log, view=view, checkpoints=reader)
    without = Recoverer(log, checkpoints=reader)
    start_ms = taken(lambda: found.append(len(recover_open(without, 0))))
    rebalance = [taken(lambda: found.append(len(recover_open(without, 0)))) for _ in range(ROUNDS)]
    by_view = [taken(lambda: found.append(len(recover_open(with_view, 0)))) for _ in range(ROUNDS)]
    assert set(found) == {OPEN}, found
    whole_ms = taken(lambda: with_view.recover_partition(0))
    table.row(
        what="unfinished processes of a partition", finished=finished, view_ms=p50(by_view),
        checkpoints_first_ms=start_ms, checkpoints_again_ms=p50(rebalance), all_processes_ms=whole_ms,
    )  # fmt: skip
    table.at_most(f"by the view, {finished:,} finished, ms", bar=VIEW_BAR_MS, value=p50(by_view))
    table.at_most(f"by checkpoints again, {finished:,} finished, ms", bar=REBALANCE_BAR_MS, value=p50(rebalance))
    table.at_most(f"by checkpoints at a start, {finished:,} finished, s", bar=START_BAR_S, value=start_ms / 1_000)
    view.close()
    log.close()


def taken(call: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


def write(settings: Settings, log: KafkaReader, view: RedisView, finished: int) -> None:
    """Write finished processes and a few open ones: entries, checkpoints, floor and view."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "acks": "all", "linger.ms": 20})
    journal, checkpoints = settings.topic_name("journal"), settings.topic_name("checkpoints")
    offsets = count()
    token = view.install(0, log.topic_id)
    states = ((f"p{number}", state_of(f"p{number}", number < finished, offsets)) for number in range(finished + OPEN))
    position = 0
    while some := list(islice(states, PUT)):
        for process_id, (state, values) in some:
            key = process_id.encode()
            for value in values:
                produce(producer, journal, value, key)
            produce(producer, checkpoints, Checkpoint.of(process_id, 0, state, log.topic_id, -1).to_bytes(), key)
        put = {key.encode(): (state, Pointer(position + at, 0)) for at, (key, (state, _)) in enumerate(some)}
        assert view.put(0, token, put)
        position += len(some)
    end = next(offsets)
    floor = Floor(offset=end, leader_epoch=-1, topic_id=log.topic_id, since=0)
    assert producer.flush(300) == 0
    producer.produce(checkpoints, floor.to_bytes(), FLOOR_KEY, 0)
    assert producer.flush(30) == 0
    assert log.watermarks(0).high == end
    view.ready(0, token, end - 1, -1)


def produce(producer: Producer, topic: str, value: bytes, key: bytes) -> None:
    """Produce a record as soon as there is room."""
    while True:
        try:
            return producer.produce(topic, value, key, 0)
        except BufferError:
            producer.poll(0.1)


def state_of(process_id: str, is_finished: bool, offsets: Iterator[int]) -> tuple[State, list[bytes]]:
    """Return the state of a process, as a gravestone if it has finished, and its encoded entries."""
    claim, draft, values = next(_ids).to_bytes(16, "big"), Draft(), []
    bodies: list[Body] = [Claim(0, "node", "boot"), *([Finished('"done"')] if is_finished else [])]
    for seq, body in enumerate(bodies):
        own = bool(seq)
        entry = Entry(
            next(_ids).to_bytes(16, "big") if own else claim, process_id, seq or None, int(own), claim if own else None,
            None, 0, None, None, None, body,
        )  # fmt: skip
        advance(draft, next(offsets), entry)
        values.append(encode(entry))
    state = draft.freeze()
    return state.without_content() if is_finished else state, values


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
