"""Replays on Kafka: seeks, equal records, kill -9, a broker that dies, and an untouched production cluster."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from agent_programs import until
from seekpoint.compose import LocalCluster
from seekpoint.consumers.staging import Pace, Plan, Replay, Selection
from seekpoint.consumers.staging.copy.headers import ReplayOrigin
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.kafka_replay import AUDIT_TOPIC, KafkaTopic
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused
from staging_world import StagingWorld, without_origin

pytestmark = pytest.mark.cluster

NOW_MS = int(time.time() * 1000)
START_MS = NOW_MS - 3_600_000


@pytest.fixture
def world(cluster: LocalCluster, tmp_path: Path) -> StagingWorld:
    return StagingWorld(cluster.bootstrap_servers, tmp_path)


def replay(world: StagingWorld, source: str, target: str, plan: Plan | None = None, **more: Any) -> Replay:
    ends = KafkaTopic(world.cluster("prod"), source), KafkaTopic(world.cluster(), target)
    return Replay(*ends, plan, names=(f"prod/{source}", f"staging/{target}"), **more)


def rows(count: int, partitions: int = 4) -> list[tuple[int, bytes | None, bytes | None, int, Any]]:
    """Records with nulls, empty values and headers."""
    return [
        (
            number % partitions,
            None if number % 11 == 0 else f"case-{number % 50}".encode(),
            None if number % 7 == 0 else b"" if number % 13 == 0 else b"value %d " % number * (number % 9),
            START_MS + number,
            [("h", b"1"), ("h", None), ("traceparent", b"t")] if number % 3 == 0 else None,
        )
        for number in range(count)
    ]


# --- seeks
STAMPS = [START_MS + after for after in (10, 20, 20, 20, 50, 30, 60)]


def test_seeks_by_time_equal_those_in_memory(world: StagingWorld) -> None:
    """Times before, between, at and after the records, out of order, in an empty partition and in the future."""
    topic, twin = world.topic(2), MemoryTopic(2)
    world.write(topic, [(0, b"k", b"v", stamp, None) for stamp in STAMPS])
    for stamp in STAMPS:
        twin.append(0, b"k", b"v", stamp)
    real = KafkaTopic(world.cluster("prod"), topic)
    asked = sorted({0, 1, NOW_MS + 10**9, *(stamp + more for stamp in STAMPS for more in (-1, 0, 1))})
    for partition in (0, 1):
        assert [real.offset_at(partition, at) for at in asked] == [twin.offset_at(partition, at) for at in asked]
    assert real.watermarks() == twin.watermarks()


@pytest.mark.long
def test_ranges_with_compacted_offsets_end(world: StagingWorld) -> None:
    """Offsets without records at the start, within and at the end of a range are counted, and the replay ends."""
    compacting = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic, target = world.topic(1, compacting), world.topic(1)
    world.write(topic, [(0, b"k", b"%d" % number, START_MS + number, None) for number in range(6)])

    def is_compacted() -> bool:
        world.write(topic, [(0, b"roll", b"x", NOW_MS, None)])  # a new segment makes the old one eligible
        time.sleep(0.5)
        return sum(row[2] == b"k" for row in world.read(topic)) == 1

    until(is_compacted, 120)
    left = [row[1] for row in world.read(topic)]
    high = max(left) + 1
    report = replay(world, topic, target).run()
    assert report.checked
    assert report.replayed == len(left)
    assert report.missing_offsets == high - len(left)
    within = Selection(offsets={0: (0, 4)})
    assert replay(world, topic, world.topic(1), Plan(selection=within)).run().missing_offsets == 5


def test_aborted_records_are_not_replayed(world: StagingWorld) -> None:
    """Transaction markers are not replayed either; an open transaction is behind the end."""
    topic, target = world.topic(1), world.topic(1)
    where = {"bootstrap.servers": world.bootstrap_servers, "log_level": 0}
    for name, ends in (("a", "commit"), ("b", "abort"), ("c", "stays open")):
        producer = Producer({**where, "transactional.id": f"{topic}.{name}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, name.encode(), b"k", 0)
        producer.flush(20)
        if ends == "commit":
            producer.commit_transaction(20)
        elif ends == "abort":
            producer.abort_transaction(20)
    source = KafkaTopic(world.cluster("prod"), topic)
    until(lambda: source.watermarks()[0].high == 4, 120)  # the marks come a moment after the decisions
    report = replay(world, topic, target).run()
    assert [row[3] for row in world.read(target, committed=False)] == [b"a"]
    assert report.missing_offsets == 3  # the mark of a, b and its mark
    producer.abort_transaction(20)


def test_a_trimmed_source_is_a_gap(world: StagingWorld) -> None:
    """The remaining records are replayed, the trimmed offsets are a gap."""
    topic, target = world.topic(1), world.topic(1)
    world.write(topic, rows(20, 1))
    [done] = world.admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    done.result(60)
    report = replay(world, topic, target).run()
    assert [(gap.start, gap.stop) for gap in report.gaps] == [(0, 5)]
    assert report.replayed == 15


# --- fidelity
def test_a_copy_on_kafka_equals_its_source(world: StagingWorld, tmp_path: Path) -> None:
    """Every record is equal, read without the replay's code; a capture and its replay are equal too."""
    topic, target, again = world.topic(), world.topic(), world.topic()
    world.write(topic, rows(5_000))
    report = replay(world, topic, target, offset_map=tmp_path / "map").run()
    expected = [
        (partition, key, value, stamp, tuple(each for each in headers if each[0] == "h"))
        for partition, key, value, stamp, headers in without_origin(world.read(topic))
    ]
    assert without_origin(world.read(target)) == expected
    assert (report.sent, report.checked, report.restamped) == (5_000, True, 0)
    assert (tmp_path / "map").read_text().splitlines()[1:] == [f"{at}\t0\t{at}\t0\t1250" for at in range(4)]
    clusters = {name: world.cluster(name) for name in ("prod", "staging")}
    file = str(tmp_path / "run.spk")
    with Replay.connect(f"prod/{topic}", file, clusters=clusters) as capture:
        assert capture.run().checked
    with Replay.connect(file, f"staging/{again}", clusters=clusters) as back:
        assert back.run().checked
    assert without_origin(world.read(again)) == expected


def test_original_timing_is_kept_on_kafka(world: StagingWorld) -> None:
    """Six seconds are replayed in three: paused partitions lose nothing, and few records are late."""
    topic, target = world.topic(), world.topic()
    world.write(topic, [(n % 4, b"k", b"%d" % n, START_MS + n, None) for n in range(6_000)])
    report = replay(world, topic, target, Plan(pace=Pace(speed=2))).run()
    assert (report.replayed, report.missing_offsets, report.checked) == (6_000, 0, True)
    assert 2.9 < report.duration_s < 30
    assert report.lateness["p50_ms"] < 200


def test_the_settings_of_a_real_topic_are_checked(world: StagingWorld) -> None:
    """Kafka's real ids, timestamp types and retention are checked, and missing topics and clusters refused."""
    topic = world.topic()
    world.write(topic, rows(10))
    with pytest.raises(ReplayRefused, match="the target is the source"):
        replay(world, topic, topic).run()
    stamping = world.topic(config={"message.timestamp.type": "LogAppendTime"})
    short = world.topic(config={"retention.ms": "60000"})
    for target, why in ((stamping, "time of their arrival"), (short, "retention"), ("nowhere", "no such topic")):
        with pytest.raises(ReplayRefused, match=why):
            replay(world, topic, target).run()
    ends = (KafkaTopic(world.cluster("prod"), topic), KafkaTopic(world.cluster("prod"), world.topic()))
    with pytest.raises(ReplayRefused, match="not marked as staging"):
        Replay(*ends, is_staging=False).run()
    with pytest.raises(ReplayRefused, match="not marked as staging"):
        ends[1].sender(linger_ms=0)


def test_a_record_that_the_target_refuses_ends_the_replay(world: StagingWorld) -> None:
    """A record that is too large ends the replay with an error; none is skipped."""
    topic, target = world.topic(1), world.topic(1, {"max.message.bytes": "2000"})
    world.write(topic, [(0, b"k", b"x" * size, START_MS, None) for size in (10, 5_000, 10)])
    with pytest.raises((ReplayRefused, JournalUnavailable, Exception), match=r"size|large|fatal|Fatal"):
        replay(world, topic, target).run()
    assert len(world.read(target)) <= 1


# --- faults
@pytest.mark.parametrize(
    ("seed", "kills"), [(1, 1), pytest.param(2, 4, marks=pytest.mark.long)], ids=["once", "four times"]
)
def test_a_replay_killed_at_random_moments_completes(
    world: StagingWorld, seed: int, kills: int, tmp_path: Path
) -> None:
    """After kill -9 and a resumed replay the target equals the source, without loss or duplicates."""
    chance = random.Random(seed)
    topic, target = world.topic(), world.topic(3)
    world.write(topic, rows(40_000))
    arguments = ("replay", "--from", f"prod/{topic}", "--into", f"staging/{target}", "--rate", "20000")
    real = KafkaTopic(world.cluster(), target)
    killed = 0
    for _ in range(kills):
        before = arrived(real)
        process = world.start(*arguments)
        wanted = before + chance.randrange(1, 7_000)
        until(partial(has_come, real, wanted, process), 120)
        killed += process.poll() is None
        process.kill()
        process.wait()
    assert killed == kills, (tmp_path / "talk.log").read_text()[-2_000:]
    done = world.run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["checked"]
    assert report["replayed"] == 40_000
    found = world.read(target)
    assert len(found) == 40_000
    origins = [ReplayOrigin.from_headers(row[5]) for row in found]
    assert len({(origin.partition, origin.offset) for origin in origins if origin is not None}) == 40_000
    again = world.run(*arguments)
    assert again.returncode == 4
    assert "done before" in again.stderr


def has_come(topic: KafkaTopic, wanted: int, process: subprocess.Popen[bytes]) -> bool:
    return arrived(topic) >= wanted or process.poll() is not None


def arrived(topic: KafkaTopic) -> int:
    return sum(mark.high for mark in topic.watermarks().values())


@pytest.mark.long
def test_a_replay_survives_the_death_of_the_targets_broker(tmp_path: Path) -> None:
    """The replay continues when the broker is back, and the target equals the source."""
    with LocalCluster() as other:
        world = StagingWorld(other.bootstrap_servers, tmp_path)
        topic, target = world.topic(), world.topic()
        world.write(topic, rows(10_000))
        running = replay(world, topic, target, Plan(pace=Pace(rate=4_000)))
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(running.run)
            real = KafkaTopic(world.cluster(), target)
            until(lambda: arrived(real) > 2_000, 120)
            other.brokers[0].kill()
            other.brokers[0].start()
            assert done.result(120).checked
        assert [row[1:] for row in without_origin(world.read(target))] == [
            (key, value, stamp, tuple(each for each in headers if each[0] == "h"))
            for _, key, value, stamp, headers in without_origin(world.read(topic))
        ]


def test_a_replay_changes_nothing_in_production(world: StagingWorld, cluster: LocalCluster) -> None:
    """A replay changes no topic, group, record or Redis key of the source's cluster."""
    kept = redis.Redis.from_url(cluster.redis_url)
    kept.set("somebody's", "value")
    keys = {key: kept.dump(key) for key in kept.scan_iter()}
    topic, target = world.topic(), world.topic()
    world.write(topic, rows(2_000))
    group = working_group(world, topic)
    offsets = committed(world.admin)
    assert offsets[group] == {(topic, at): 100 + at for at in range(4)}
    before = everything(world.admin, without=(topic, target, AUDIT_TOPIC))
    stop, written = threading.Event(), [0]

    def traffic() -> None:
        while not stop.is_set():
            world.write(topic, [(written[0] % 4, b"live", b"%d" % written[0], START_MS, None)])
            written[0] += 1

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        until(lambda: written[0] > 5, 120)
        report = replay(world, topic, target).run()
    finally:
        stop.set()
        thread.join()
    assert report.checked
    assert report.replayed >= 2_000
    assert everything(world.admin, without=(topic, target, AUDIT_TOPIC)) == before
    assert committed(world.admin) == offsets
    assert {key: kept.dump(key) for key in kept.scan_iter()} == keys
    kept.close()
    found = world.read(topic)
    assert len(found) == 2_000 + written[0]
    assert not any("seekpoint-replay" in name for row in found for name, _ in row[5])


def working_group(world: StagingWorld, topic: str) -> str:
    """A consumer group of production that reads the topic."""
    group = f"{topic}.workers"
    consumer = Consumer({"bootstrap.servers": world.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, at, 100 + at) for at in range(4)], asynchronous=False)
    consumer.close()
    return group


def committed(admin: AdminClient) -> dict[str, dict[tuple[str, int], int]]:
    """The committed offsets of each group in each topic, including groups of the replay."""
    found = {}
    for group in admin.list_consumer_groups().result(60).valid:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group.group_id)])
        places = asked[group.group_id].result(60).topic_partitions
        found[group.group_id] = {(each.topic, each.partition): each.offset for each in places}
    return found


def everything(admin: AdminClient, without: tuple[str, ...]) -> tuple[Any, ...]:
    """All topics and groups."""
    topics = {name: len(each.partitions) for name, each in admin.list_topics(timeout=60).topics.items()}
    groups = sorted(group.group_id for group in admin.list_consumer_groups().result(60).valid)
    return {name: count for name, count in topics.items() if name not in without}, groups


def test_a_secret_of_a_profile_is_never_printed(world: StagingWorld) -> None:
    """Errors of the client do not print it either."""
    world.config.write_text(
        '[clusters.prod]\nbootstrap_servers = "127.0.0.1:1"\nstart_timeout_s = 1\n'
        'security.protocol = "SASL_PLAINTEXT"\nsasl.mechanism = "PLAIN"\n'
        'sasl.username = "u"\nsasl.password = "hunter2-secret"\n'
        '[clusters.staging]\nbootstrap_servers = "127.0.0.1:1"\nstaging = true\n'
    )
    done = world.run("replay", "--from", "prod/a", "--into", "staging/b", "--debug")
    assert done.returncode == 3
    assert "hunter2-secret" not in done.stdout + done.stderr
