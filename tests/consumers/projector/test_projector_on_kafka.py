"""The projector on a real Kafka and a real Valkey: caught up, killed, stopped, rebalanced, flushed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from histories import ACTIONS, PROCESS_IDS, Step, Written, expected_states
from histories import _Writer as Historian
from own_valkey import OwnValkey, own_valkey
from projector_runs import hurried, program, reached
from raw_kafka import RawKafka
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import FOLD_VERSION, new_state
from seekpoint.schemas.wire.codec import encode

pytestmark = pytest.mark.cluster

IDS = (*PROCESS_IDS, *(f"p{number}" for number in range(8)))
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with own_valkey() as server:
        yield server


@pytest.fixture
def place(journal: Settings, server: OwnValkey) -> Settings:
    return hurried(journal, server)


class History:
    """The entries that are written, and the states that they must lead to."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.raw = RawKafka(settings)
        self.historian = Historian(self.raw.append, settings.partitions)
        self.random = Random(7)

    def write(self, count: int) -> None:
        for _ in range(count):
            action = self.random.choice([one for one in ACTIONS if one != "finish"])
            self.historian.take(Step(self.random.choice(IDS), action, self.random.randrange(30)))

    def check(self) -> None:
        """Check that view and checkpoints equal a plain fold, and that nothing in the topic went back."""
        view, reader = RedisView(self.settings, self.settings.partitions), KafkaReader(self.settings)
        try:
            saved = {number: newest_of(reader, number) for number in range(self.settings.partitions)}
            for process_id, state in expected_states(self.historian.written, (*IDS, "stranger")).items():
                if state.offset < 0:
                    continue
                key = process_id.encode()
                number = partition_of(key, self.settings.partitions)
                assert view.look_up(number, key).state == state, process_id
                assert saved[number][key] == state, process_id
            letters = DeadLetters(reader, self.settings).list()
            places = {(one.partition, one.offset) for one in self.historian.written if one.entry is None}
            assert places <= {(letter.partition, letter.offset) for letter in letters}
        finally:
            view.close()
            reader.close()


def newest_of(reader: KafkaReader, partition: int) -> dict[bytes, object]:
    """Return the newest state of each process in the checkpoint topic, and check that no offset falls."""
    kept, found, newest = reader.checkpoints(), {}, dict[bytes, int]()
    for _, key, value in kept.records(partition, 0, kept.stable_end(partition)):
        assert value is not None
        if key == FLOOR_KEY:
            offset = Floor.from_bytes(value).offset
        else:
            checkpoint = Checkpoint.from_bytes(value)
            offset = checkpoint.offset
            found[key] = checkpoint.verified(key.decode(), reader.topic_id)
        assert offset >= newest.get(key, -1), key
        newest[key] = offset
    return dict[bytes, object](found)


async def test_caught_up_means_view_and_checkpoints_are_the_fold_of_the_log(place: Settings) -> None:
    """Every process and all poison are there, also after more entries."""
    history = History(place)
    history.write(250)
    projector = Projector.connect(place)
    await projector.catch_up(timeout_s=TIMEOUT_S)
    history.check()
    history.write(40)
    await projector.catch_up(timeout_s=TIMEOUT_S)
    history.check()


async def test_whatever_an_outsider_writes_the_projector_and_the_neighbours_go_on(place: Settings) -> None:
    """Return entries of every body with its defaults, with and without a seq, and a seed of an unannounced fold."""
    history = History(place)
    history.write(20)
    newer = b.Seeded(new_state().to_bytes().decode().replace(f'"fold_version":{FOLD_VERSION}', '"fold_version":99'))
    outside = [newer, *(kind() for kind in b.BODIES)]
    for process_id in (*IDS, "stranger"):
        key = process_id.encode()
        for number, body in enumerate(outside):
            entry = Entry(new_id(), process_id, number % 2 or None, 0, None, None, 0, None, None, None, body)
            partition = partition_of(key, place.partitions)
            value = encode(entry)
            history.historian.written.append(
                Written(partition, history.raw.append(partition, key, value), key, value, entry)
            )
    history.write(20)
    await Projector.connect(replace(place, dead_letters_max=10_000)).catch_up(timeout_s=TIMEOUT_S)
    history.check()
    reader = KafkaReader(place)
    try:
        partition = partition_of(b"stranger", place.partitions)
        letters = [one for one in DeadLetters(reader, place).list() if one.partition == partition]
        first = min(one.offset for one in history.historian.written if one.key == b"stranger")
        assert [one.offset for one in letters].count(first) == 1
    finally:
        reader.close()


async def test_catching_up_works_beside_a_run_and_tells_the_lag(place: Settings) -> None:
    """One loop does both, and no partition lags afterwards."""
    history = History(place)
    projector = Projector.connect(place)
    running = asyncio.create_task(projector.run())
    history.write(60)
    await projector.catch_up(timeout_s=TIMEOUT_S)
    history.check()
    assert {number: lag.entries for number, lag in projector.lag().items()} == dict.fromkeys(range(4), 0)
    projector.stop()
    await asyncio.wait_for(running, TIMEOUT_S)


@pytest.mark.parametrize("point", ["applied:2", "written:1", "sent:1", "committed:1"])
async def test_killed_at_any_point_nothing_is_lost_and_nothing_applied_twice(place: Settings, point: str) -> None:
    """kill -9 between apply and commit, in an open transaction, between commit and pointers."""
    history = History(place)
    history.write(120)
    with program(place, point) as child:
        assert await reached(child) == point.partition(":")[0]
        history.write(30)
        child.wait(TIMEOUT_S)
    await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
    history.check()


async def test_killed_during_a_rebuild_the_next_one_rebuilds(place: Settings, server: OwnValkey) -> None:
    """A view in the middle of its rebuild is never ready."""
    history = History(place)
    history.write(120)
    await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
    server.client.flushall()
    with program(place, "rebuilding:2") as child:
        assert await reached(child) == "rebuilding"
        child.wait(TIMEOUT_S)
    history.write(30)
    await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
    history.check()


@pytest.mark.parametrize("point", ["written:1", "applied:2"])
async def test_a_projector_that_lost_its_partitions_while_it_stood_still_changes_nothing(
    place: Settings, point: str
) -> None:
    """SIGSTOP during a transaction; others take over and save; after SIGCONT the broker refuses the transaction."""
    history = History(place)
    history.write(120)
    with program(place, point, stop=True) as child:
        assert await reached(child) == point.partition(":")[0]
        await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
        history.write(30)
        await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
        history.check()
        child.send_signal(signal.SIGCONT)
        history.write(30)
        await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
        history.check()
        assert child.poll() is None, "it goes on as a member"


@pytest.mark.long
async def test_states_that_were_read_before_others_took_over_are_not_saved(place: Settings) -> None:
    """P5: its client knows the new generation, but its states are old."""
    history = History(place)
    history.write(120)
    with program(place, "proposed:1", stop=True) as child:
        assert await reached(child) == "proposed"
        await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
        history.write(60)
        await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
        history.check()
        child.send_signal(signal.SIGCONT)
        assert await reached(child) == "ended"
        history.check()


async def test_two_projectors_share_the_partitions_and_one_leaving_is_no_matter(place: Settings) -> None:
    """The group rebalances while entries arrive."""
    history = History(place)
    first, second = Projector.connect(place), Projector.connect(place)
    running = [asyncio.create_task(one.run()) for one in (first, second)]
    await asyncio.to_thread(history.write, 150)
    async with asyncio.timeout(TIMEOUT_S):
        while not (len(first.lag()) == len(second.lag()) == 2):  # noqa: ASYNC110  # another thread's, no event
            await asyncio.sleep(0.05)
    await second.catch_up(timeout_s=TIMEOUT_S)
    first.stop()
    await asyncio.to_thread(history.write, 50)
    await asyncio.wait_for(running[0], TIMEOUT_S)
    await second.catch_up(timeout_s=TIMEOUT_S)
    history.check()
    second.stop()
    await asyncio.wait_for(running[1], TIMEOUT_S)


async def test_a_flushed_redis_is_rebuilt_while_the_projector_runs(place: Settings, server: OwnValkey) -> None:
    """FLUSHALL at any moment costs a rebuild from checkpoints, and nothing else."""
    history = History(place)
    projector = Projector.connect(place)
    running = asyncio.create_task(projector.run())
    for _ in range(3):
        await asyncio.to_thread(history.write, 60)
        server.client.flushall()
    history.write(10)
    await projector.catch_up(timeout_s=TIMEOUT_S)
    history.check()
    projector.stop()
    await asyncio.wait_for(running, TIMEOUT_S)


async def test_a_damaged_checkpoint_is_rewritten(place: Settings, server: OwnValkey) -> None:
    """The log is complete, so the state is recomputed from it."""
    history = History(place)
    history.write(120)
    await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
    victim = next(one for one in history.historian.written if one.entry is not None)
    history.raw.write(victim.partition, [(victim.key, b"damaged", 0)], place.topic_name("checkpoints"))
    server.client.flushall()
    await Projector.connect(place).catch_up(timeout_s=TIMEOUT_S)
    reader = KafkaReader(place)
    kept = reader.checkpoints()
    assert victim.key is not None
    values = [
        value
        for _, key, value in kept.records(victim.partition, 0, kept.stable_end(victim.partition))
        if key == victim.key
    ]
    reader.close()
    state = expected_states(history.historian.written, IDS)[victim.key.decode()]
    assert Checkpoint.from_bytes(values[-1] or b"").verified(victim.key.decode(), reader_topic(place)) == state


def reader_topic(settings: Settings) -> str:
    reader = KafkaReader(settings)
    try:
        return reader.topic_id
    finally:
        reader.close()


def test_without_redis_there_is_no_projector() -> None:
    """The error is typed and raised at once."""
    with pytest.raises(InvalidSetting):
        Projector.connect(Settings(redis_url=None))
