"""Bytes of a segment that changed while the broker was stopped: every reader says so, nothing is made of them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_checkpoints import save
from owners import Owner
from raw_kafka import RawKafka
from seekpoint.compose import LocalCluster, check_topics, create_topics
from seekpoint.compose.topic_admin import read_newest
from seekpoint.console.demo.journal_reading import read_journal
from seekpoint.consumers import Recovery, Tier
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.staging.copy.full_read import read_to_end
from seekpoint.consumers.staging.kafka_replay import KafkaTopic
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.errors import JournalUnavailable, LogDamaged

pytestmark = pytest.mark.cluster

VALUE, MAGIC, PLACE = "value", "magic", "place"
"""What is damaged of the fourth batch: a value (the checksum is wrong), the record format, the offset of the batch."""
SAVED, NAMED = "saved", "named"
"""The journal is whole; damaged are its checkpoints, or its manifest."""
JOURNALS = (VALUE, MAGIC, PLACE, SAVED, NAMED)
DAMAGED_AT = 3


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that was stopped in order (else it repairs its segments), damaged, and started again."""
    directory = tmp_path_factory.mktemp("damage")
    with LocalCluster(directory=directory) as cluster:
        for name in JOURNALS:
            _fill(_settings(cluster, name))
    _flip(_segment(directory, "value.journal-0"), 3, b"12.50", b"99.50")
    _put(_segment(directory, "magic.journal-0"), 3, 16, b"\x07")
    _put(_segment(directory, "place.journal-0"), 3, 0, struct.pack(">q", 5_000_000))
    _flip(_segment(directory, "saved.checkpoints-0"), 0, b"12.50", b"99.50")
    _flip(_segment(directory, "named.schemas-0"), 0, b"partitions", b"partytions")
    with LocalCluster(directory=directory) as cluster:
        yield cluster


def _settings(cluster: LocalCluster, name: str) -> Settings:
    return replace(cluster.settings(journal=name, partitions=1), start_timeout_s=10.0)


def _fill(settings: Settings) -> None:
    asyncio.run(create_topics(settings))
    raw = RawKafka(settings)
    owner = Owner(raw.append, 1, "case-1")
    owner.claim()
    owner.update("name", '"Ann"')
    owner.update("city", '"Oslo"')
    owner.update("amount", '"12.50"')
    owner.update("city", '"Rome"')
    if settings.journal == SAVED:
        save(settings)


def _segment(directory: Path, partition: str) -> Path:
    [found] = directory.glob(f"**/{partition}/00000000000000000000.log")
    return found


def _batch(data: bytes | bytearray, index: int) -> int:
    """Return where the batch begins."""
    at = 0
    for _ in range(index):
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    return at


def _put(segment: Path, batch: int, offset: int, new: bytes) -> None:
    data = bytearray(segment.read_bytes())
    at = _batch(data, batch) + offset
    data[at : at + len(new)] = new
    segment.write_bytes(data)


def _flip(segment: Path, batch: int, old: bytes, new: bytes) -> None:
    data = segment.read_bytes()
    at = data.index(old, _batch(data, batch))
    segment.write_bytes(data[:at] + new + data[at + len(old) :])


@pytest.fixture(params=[VALUE, MAGIC, PLACE])
def damaged(request: pytest.FixtureRequest, stopped: LocalCluster) -> Settings:
    """A journal whose fourth entry is damaged."""
    return _settings(stopped, request.param)


def _is_told(error: LogDamaged, settings: Settings) -> None:
    """The error says what is damaged, where, and what to do."""
    assert error.facts["topic"] == settings.topic_name("journal")
    assert error.facts["partition"] == 0
    assert "replica" in error.hint
    assert "99.50" not in str(error)


async def test_a_recovery_and_an_open_say_what_is_damaged(damaged: Settings) -> None:
    """Neither returns the changed amount, or a state without the entry."""
    async with Recovery.connect(damaged) as recovery:
        with pytest.raises(LogDamaged) as caught:
            await recovery.recover("case-1")
        _is_told(caught.value, damaged)
        with pytest.raises(LogDamaged):
            await recovery.recover_many(["case-1"])
    async with Node.connect(replace(damaged, redis_url=None)) as node:
        with pytest.raises(LogDamaged):
            async with node.open("case-1"):
                pass


async def test_the_projector_stops_the_partition_and_keeps_nothing(damaged: Settings) -> None:
    """View and checkpoints have no damaged entry, and the floor does not pass the damage."""
    with pytest.raises(LogDamaged) as caught:
        await Projector(damaged).catch_up(timeout_s=30)
    _is_told(caught.value, damaged)
    view = RedisView(damaged, 1)
    seen = view.look_up(0, b"case-1")
    assert seen.state is None or seen.state.offset < DAMAGED_AT
    assert seen.meta is None or seen.meta.applied is None or seen.meta.applied < DAMAGED_AT
    view.close()
    reader = KafkaReader(damaged)
    assert list(reader.checkpoints().records(0, 0, reader.checkpoints().end(0))) == []
    reader.close()


def test_the_tail_breaks_and_hands_out_nothing_damaged(damaged: Settings) -> None:
    """After a broken batch the node reads the partition directly, which raises the error."""
    tail = KafkaReader(damaged).tail()
    tail.begin(0, 0)
    offsets: list[int] = []
    for _ in range(200):
        stretches = tail.poll(0.1)
        offsets += [one.record(index).offset for one in stretches for index in range(len(one.keys))]
        if any(one.broken for one in stretches):
            break
    else:
        pytest.fail("the tail never broke")
    tail.close()
    assert [offset for offset in offsets if offset >= DAMAGED_AT] == []


def test_a_replay_copies_nothing_damaged(damaged: Settings) -> None:
    """The replay stops with the error, and staging never has the changed amount."""
    topic = KafkaTopic(Cluster(name="prod", settings=damaged), damaged.topic_name("journal"))
    with pytest.raises(LogDamaged) as caught:
        for messages in read_to_end(topic.read([OffsetRange(0, 0, 5)]), 10, JournalUnavailable("silent")):
            assert [each for each in messages if each.offset() >= DAMAGED_AT] == []
    assert caught.value.facts["partition"] == 0


def test_the_checker_of_the_demo_does_not_judge_damaged_entries(stopped: LocalCluster) -> None:
    """Its plain consumer also checks the CRCs."""
    with pytest.raises(JournalUnavailable, match="CRC"):
        read_journal(_settings(stopped, VALUE))


async def test_a_damaged_checkpoint_is_passed_over_and_the_report_says_so(stopped: LocalCluster) -> None:
    """The log is complete, so the next tier is used."""
    settings = replace(_settings(stopped, SAVED), redis_url=None)
    async with Recovery.connect(settings) as recovery:
        found = await recovery.recover("case-1")
        many = await recovery.recover_many(["case-1"])
    assert (found.report.tier, found.state.context["amount"]) == (Tier.SCAN, "12.50")
    assert any("checkpoint: records arrive damaged" in note for note in found.report.notes)
    assert many["case-1"].state == found.state


async def test_a_damaged_manifest_is_an_error_of_every_way_to_it(stopped: LocalCluster) -> None:
    """This holds for the reader that connects and for the commands on topics."""
    settings = _settings(stopped, NAMED)
    with pytest.raises(LogDamaged):
        KafkaReader(settings).connect()
    with pytest.raises(LogDamaged):
        read_newest(settings, settings.topic_name("schemas"))
    with pytest.raises(LogDamaged):
        await check_topics(settings)
