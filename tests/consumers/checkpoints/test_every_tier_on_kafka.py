"""Every tier gives the same state: real projectors on a real Kafka and a real Valkey, with real faults."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from own_valkey import OwnValkey, own_valkey
from projector_runs import hurried, program, reached
from raw_kafka import RawKafka
from real_runs import NO_RUNS, RUNS, journal_run, load_runs
from seekpoint.consumers import Projector, Recovery, Tier
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import Fenced, TierUnavailable
from seekpoint.schemas.log.partition import partition_of

pytestmark = pytest.mark.cluster

IDS = [f"case-{number}" for number in range(12)]
TIMEOUT_S = 60.0
KEPT = (Tier.VIEW, Tier.CHECKPOINT)


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    """A Valkey without an append-only file: it loses what was not saved when it is killed."""
    with own_valkey(appendonly="no") as server:
        yield server


@pytest.fixture
def place(journal: Settings, server: OwnValkey) -> Settings:
    """Confirmed soon, too."""
    return replace(hurried(journal, server), confirm_interval_s=1.0)


async def work(settings: Settings, ids: Iterable[str] = IDS, count: int = 4) -> None:
    """Each process adds a message, sets a value and is released."""
    async with Node.connect(settings) as node:
        for process_id in ids:
            async with node.open(process_id) as process:
                for number in range(count):
                    await process.update("n", number)
                    await process.say("user", f"{process_id} {number}")


async def catch_up(settings: Settings) -> None:
    """Run a projector until it has caught up."""
    async with Projector.connect(settings) as projector:
        await projector.catch_up(timeout_s=TIMEOUT_S)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Projector]:
    """Run a projector."""
    projector = Projector.connect(settings)
    task = asyncio.create_task(projector.run())
    try:
        yield projector
    finally:
        projector.stop()
        await asyncio.wait_for(task, TIMEOUT_S)


async def scanned(settings: Settings) -> dict[str, str]:
    """Return the hash of every process by scan, the oracle."""
    async with Recovery.connect(replace(settings, redis_url=None)) as recovery:
        found: dict[str, str] = {}
        for partition in range(settings.partitions):
            states = await asyncio.to_thread(recovery.blocking.recover_partition, partition, tier=Tier.SCAN)
            found.update({process_id: one.state.hash for process_id, one in states.items()})
        return found


async def compare(settings: Settings, expected: dict[str, str], tiers: Iterable[Tier | None] = (None, *KEPT)) -> None:
    """Compare every process by each of these tiers."""
    async with Recovery.connect(settings) as recovery:
        for tier in tiers:
            for process_id, wanted in expected.items():
                found = await recovery.recover(process_id, tier=tier)
                assert found.state.hash == wanted, (process_id, tier)
                assert tier is None or found.report.tier is tier


# --- the three recoveries ---------------------------------------------------------------------------------------------
async def test_the_three_recoveries(place: Settings) -> None:
    """A checkpoint and three updates: 3. Three entries and no checkpoint: 3. Nothing at all: {}, created, 0."""
    async with Node.connect(place) as node:
        first, second = node.open("first"), node.open("second")
        async with first as process, second as other:
            await process.transition("starting")
            await process.transition("running")
            await process.update("check_count", 8)
            await catch_up(place)
            for count in (9, 10, 11):
                await process.update("check_count", count)
                await other.update("k", count)
            found = await node.recover("first")
            forced = await node.recover("first", tier=Tier.CHECKPOINT)
            scan = await node.recover("second", tier=Tier.SCAN)
    for one in (found, forced):
        assert (one.state.context, one.state.lifecycle, one.report.entries_applied) == (
            {"check_count": 11},
            "running",
            3,
        )
    assert (scan.state.context, scan.report.entries_applied) == ({"k": 11}, 3)
    async with Recovery.connect(place) as recovery:
        nothing = await recovery.recover("nobody", missing_ok=True)
    assert (nothing.state.context, nothing.state.lifecycle, nothing.report.entries_applied) == ({}, "created", 0)


# --- every tier -------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not RUNS.exists(), reason=NO_RUNS)
async def test_the_real_runs_by_every_tier(place: Settings) -> None:
    """150 conversations with tool calls are equal word for word."""
    gate, runs = asyncio.Semaphore(25), load_runs()
    async with Node.connect(place) as node:
        await asyncio.gather(*(journal_run(node, run, gate) for run in runs))
    await catch_up(place)
    expected = await scanned(place)
    assert len(expected) == len(runs)
    await compare(place, expected)


async def test_after_a_flush(place: Settings, server: OwnValkey) -> None:
    """Without a view a recovery uses the checkpoint and its report says so. Projected again, all tiers agree."""
    await work(place)
    await catch_up(place)
    expected = await scanned(place)
    server.client.flushall()
    await compare(place, expected, (None, Tier.CHECKPOINT))
    async with Recovery.connect(place) as recovery:
        found = await recovery.recover(IDS[0])
        assert (found.report.tier, found.report.notes) == (Tier.CHECKPOINT, ("view: there is none",))
        with pytest.raises(TierUnavailable):
            await recovery.recover(IDS[0], tier=Tier.VIEW)
    await catch_up(place)
    await compare(place, expected)


async def test_after_redis_lost_its_last_second(place: Settings, server: OwnValkey) -> None:
    """Redis returns with an older view and its offset: the tail is longer and the state the same."""
    await work(place)
    await catch_up(place)
    server.client.save()
    await work(place)
    await catch_up(place)
    expected = await scanned(place)
    view, partition = RedisView(place, place.partitions), partition_of(IDS[0].encode(), place.partitions)
    before = view.meta(partition)
    server.part.kill()
    server.part.start()
    after = view.meta(partition)
    view.close()
    assert before is not None
    assert after is not None
    assert (after.applied or 0) < (before.applied or 0), "it lost nothing"
    await compare(place, expected)
    await catch_up(place)
    await compare(place, expected)


async def test_after_a_trim_to_the_floor(place: Settings, server: OwnValkey) -> None:
    """The checkpoints are the truth then, and a flushed view is rebuilt from them."""
    await work(place)
    await catch_up(place)
    expected = await scanned(place)
    reader = KafkaReader(place)
    trimmed = [Trim(reader, reader.checkpoints(), reader).run(partition) for partition in range(place.partitions)]
    reader.close()
    assert sum(one.offsets for one in trimmed) > 50
    await compare(place, expected)
    server.client.flushall()
    await catch_up(place)
    await compare(place, expected)


async def test_with_a_corrupted_checkpoint(place: Settings, server: OwnValkey) -> None:
    """A flipped byte leads to the next tier, and the report says so. Other processes are recovered as before."""
    await work(place)
    await catch_up(place)
    expected = await scanned(place)
    key, raw, reader = IDS[0].encode(), RawKafka(place), KafkaReader(place)
    partition = partition_of(key, place.partitions)
    kept = reader.checkpoints()
    newest = [value for _, one, value in kept.records(partition, 0, kept.stable_end(partition)) if one == key][-1]
    reader.close()
    assert newest is not None
    raw.write(partition, [(key, newest[:-1] + bytes([newest[-1] ^ 1]), 0)], place.topic_name("checkpoints"))
    server.client.flushall()
    async with Recovery.connect(place) as recovery:
        found = await recovery.recover(IDS[0])
    assert (found.report.tier, found.state.hash) == (Tier.SCAN, expected[IDS[0]])
    assert any("hash" in note for note in found.report.notes)
    await compare(place, expected, [None])


async def test_during_rebalances_and_a_rolling_restart(place: Settings) -> None:
    """Projectors come and go while entries arrive: every tier gives the same state, meanwhile and afterwards."""
    await work(place)
    await catch_up(place)
    expected = await scanned(place)
    compared = 0
    stop = asyncio.Event()

    async def look() -> None:
        nonlocal compared
        while not stop.is_set():
            await compare(place, expected)
            compared += 1

    async def write() -> None:
        while not stop.is_set():
            await work(place, [f"busy-{number}" for number in range(4)], count=2)

    tasks = [asyncio.create_task(look()), asyncio.create_task(write())]
    async with running(place) as first:
        for _ in range(2):
            async with running(place) as next_one, asyncio.timeout(TIMEOUT_S):
                while not len(next_one.lag()) == len(first.lag()) == 2:  # noqa: ASYNC110  # other threads', no event
                    await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(*tasks)
    assert compared > 0
    await catch_up(place)
    await compare(place, await scanned(place))


async def test_what_is_kept_carries_the_brokers_leader_epochs(place: Settings) -> None:
    """The view, each checkpoint and each floor store the epoch that a plain reader of the log sees."""
    await work(place)
    await catch_up(place)
    reader, view = KafkaReader(place), RedisView(place, place.partitions)
    kept, seen = reader.checkpoints(), 0
    for partition in range(place.partitions):
        meta = view.meta(partition)
        assert meta is not None
        if meta.applied is not None and meta.applied >= 0:
            assert meta.leader_epoch == reader.leader_epoch_at(partition, meta.applied) >= 0
        for _, key, value in kept.records(partition, 0, kept.stable_end(partition)):
            mark = (Floor if key == FLOOR_KEY else Checkpoint).from_bytes(value or b"").landmark
            if mark.offset >= 0:
                assert mark.leader_epoch == reader.leader_epoch_at(partition, mark.offset) >= 0, key
                seen += 1
    assert seen > len(IDS)
    view.close()
    reader.close()


# --- faults -----------------------------------------------------------------------------------------------------------
async def test_redis_down_costs_agents_nothing_and_recovery_the_view(place: Settings, server: OwnValkey) -> None:
    """Agents go on, and a recovery uses the checkpoint and says so. Once Redis is back, so does the projector."""
    impatient = replace(place, redis={"socket_timeout": "1"})
    await work(impatient)
    async with running(impatient) as projector, Node.connect(impatient) as node:
        await projector.catch_up(timeout_s=TIMEOUT_S)
        async with node.open("agent") as process:
            await process.update("n", 0)
            server.part.kill()
            began = time.monotonic()
            for number in range(50):
                await process.update("n", number)
            assert time.monotonic() - began < 10
            found = await node.recover(IDS[0])
            assert found.report.tier is Tier.CHECKPOINT
            assert any(note.startswith("view: ") for note in found.report.notes)
            server.part.start()
            await process.update("n", 50)
        await projector.catch_up(timeout_s=TIMEOUT_S)
    await compare(place, await scanned(place))


@pytest.mark.long
async def test_two_projectors_rebuild_at_once(place: Settings, server: OwnValkey) -> None:
    """One is paused during a rebuild, and another rebuilds too. When the first continues it changes nothing."""
    await work(place)
    await catch_up(place)
    server.client.flushall()
    with program(place, "rebuilding:1", stop=True) as child:
        assert await reached(child) == "rebuilding"
        await catch_up(place)
        expected = await scanned(place)
        await compare(place, expected)
        child.send_signal(signal.SIGCONT)
        await work(place, ["late"])
        await catch_up(place)
        await compare(place, await scanned(place))
        assert child.poll() is None


async def test_an_owner_with_a_stalled_projector_learns_that_it_was_fenced(place: Settings) -> None:
    """The view does not move, but the owner learns it within the confirm interval."""
    await work(place, ["case-0"])
    with program(place, "applied:1", stop=True) as child:
        assert await reached(child) == "applied"
        async with (
            Node.connect(replace(place, node_id="a")) as first,
            Node.connect(replace(place, node_id="b")) as second,
        ):
            with pytest.raises(Fenced):
                async with first.open("case-0") as zombie:
                    await zombie.update("n", 100)
                    heir = await second.open("case-0", take_over=True)
                    await heir.update("n", 200)
                    began = time.monotonic()
                    while time.monotonic() - began < 30:
                        await zombie.update("n", 101)
                        await asyncio.sleep(0.05)
            assert time.monotonic() - began < place.confirm_interval_s + 5
            await heir.release()
            found = await second.recover("case-0")
        assert found.state.context["n"] == 200
        assert child.poll() is None
