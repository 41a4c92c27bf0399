"""The tiers on a real Kafka and a real Valkey: compaction, damage, trimmed logs, re-created topics."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from agent_programs import until
from owners import Owner
from raw_kafka import RawKafka
from seekpoint.consumers import Recovery, Tier
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap, JournalMismatch, TierUnavailable
from seekpoint.schemas.state.process_state import State

pytestmark = pytest.mark.cluster

KEY = b"case-17"


class Fleet:
    """One process on Kafka, with a view and checkpoints that the test writes by hand."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.raw = RawKafka(settings)
        self.owner = Owner(self.raw.append, 4, "case-17")
        self.partition = self.owner.partition
        self.recovery = Recovery.connect(settings)
        self.recoverer: Recoverer = self.recovery.blocking
        self.view = RedisView(settings, 4)
        self.topic = settings.topic_name("checkpoints")

    def state(self) -> State:
        return self.recoverer.recover("case-17", tier=Tier.SCAN).state

    def checkpoint(self, state: State | None = None) -> bytes:
        made = self.state() if state is None else state
        log = self.recoverer.log
        epoch = log.leader_epoch_at(self.partition, made.offset)
        return Checkpoint.of("case-17", self.partition, made, log.topic_id, epoch).to_bytes()

    def save(self, record: bytes, floor: int) -> int:
        """Write a checkpoint and a floor in one transaction; return the checkpoint's position."""
        producer = self.raw.transaction("checkpoints")
        log = self.recoverer.log
        epoch = log.leader_epoch_at(self.partition, floor - 1)
        low = Floor(offset=floor, leader_epoch=epoch, topic_id=log.topic_id, since=0)
        records = [(KEY, record, 0), (FLOOR_KEY, low.to_bytes(), 0)]
        positions = self.raw.write_in(producer, self.partition, records, self.topic)
        producer.commit_transaction(20)
        # It is committed once the coordinator wrote that down; that it can be read comes a moment later.
        kept = self.recoverer.base_finder.checkpoints
        assert kept is not None
        until(lambda: kept.stable_end(self.partition) > positions[-1], 120)
        return positions[0]

    def project(self, pointer: Pointer) -> None:
        log = self.recoverer.log
        token = self.view.install(self.partition, log.topic_id)
        self.view.put(self.partition, token, {KEY: (self.state(), pointer)})
        applied = log.watermarks(self.partition).high - 1
        self.view.ready(self.partition, token, applied, log.leader_epoch_at(self.partition, applied))

    def close(self) -> None:
        self.recovery.close()
        self.view.close()


@pytest.fixture
def fleet(journal: Settings) -> Iterator[Fleet]:
    fleet = Fleet(journal)
    fleet.owner.claim()
    for number in (1, 2, 3):
        fleet.owner.update("k", str(number))
    yield fleet
    fleet.close()


def test_every_tier_gives_the_same_on_kafka_and_valkey(fleet: Fleet) -> None:
    """This holds one by one, for several at once, verified, and for a checkpoint by pointer and by partition."""
    pointer = Pointer(fleet.save(fleet.checkpoint(), 4), 4)
    fleet.project(pointer)
    fleet.owner.update("k", "4")
    expected = fleet.state()
    for tier in (None, *Tier):
        found = fleet.recoverer.recover("case-17", tier=tier)
        assert (found.state, found.report.tier, found.report.notes) == (expected, tier or Tier.VIEW, ())
        assert found.report.entries_scanned == (5 if tier is Tier.SCAN else 1)
        assert fleet.recoverer.recover_partition(fleet.partition, tier=tier)["case-17"].state == expected
    fleet.view.install(fleet.partition, fleet.recoverer.log.topic_id)  # no pointer any more
    found = fleet.recoverer.recover("case-17")
    assert (found.state, found.report.tier) == (expected, Tier.CHECKPOINT)
    assert "being rebuilt" in found.report.notes[0]


def test_a_log_that_was_trimmed_to_the_floor_is_recovered_from_the_checkpoint(fleet: Fleet) -> None:
    """A scan is a gap then. A process that never existed is proven unknown."""
    fleet.save(fleet.checkpoint(), 4)
    expected = fleet.state()
    fleet.owner.update("k", "4")
    fleet.raw.trim(fleet.partition, 4)
    found = fleet.recoverer.recover("case-17")
    assert (found.report.tier, found.state.context, expected.context) == (Tier.CHECKPOINT, {"k": 4}, {"k": 3})
    with pytest.raises(JournalGap):
        fleet.recoverer.recover("case-17", tier=Tier.SCAN)


def test_a_corrupted_checkpoint_is_reported_and_the_next_tier_is_used(fleet: Fleet) -> None:
    """One flipped byte is enough."""
    record = fleet.checkpoint()
    fleet.save(record[:-1] + bytes([record[-1] ^ 1]), 4)
    found = fleet.recoverer.recover("case-17")
    assert (found.report.tier, found.state.context) == (Tier.SCAN, {"k": 3})
    assert any("hash" in note for note in found.report.notes)
    with pytest.raises(TierUnavailable, match="hash"):
        fleet.recoverer.recover("case-17", tier=Tier.CHECKPOINT)


def test_a_topic_that_was_recreated_is_refused_whatever_is_kept_beside_it(fleet: Fleet) -> None:
    """Neither the old view nor the old checkpoint is used, though the offsets would fit."""
    fleet.project(Pointer(fleet.save(fleet.checkpoint(), 4), 4))
    fleet.recoverer.recover("case-17")
    fleet.raw.recreate()
    for number in range(6):
        fleet.owner.update("k", str(number))
    fleet.recoverer.log._topics._checked_at = 0.0  # type: ignore[attr-defined]  # as if a second had passed
    with pytest.raises(JournalMismatch):
        fleet.recoverer.recover("case-17")


def test_recovery_while_the_checkpoints_are_compacted(fleet: Fleet) -> None:
    """Pointers become stale while recoveries run. Every recovery is right."""
    admin = AdminClient({"bootstrap.servers": fleet.settings.bootstrap_servers})
    wanted = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "100"}
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, fleet.topic, incremental_configs=changes)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
    first = fleet.save(fleet.checkpoint(), 4)
    stale = Pointer(first, 4)
    number, deadline = 3, time.monotonic() + 60
    while fleet.recoverer.base_finder.checkpoints.at(fleet.partition, first, KEY) is not None:  # type: ignore[union-attr]
        assert time.monotonic() < deadline, "nothing was compacted"
        number += 1
        end = fleet.owner.update("k", str(number)) + 1
        fleet.save(fleet.checkpoint(), end)
        fleet.project(stale)
        fleet.owner.update("k", str(number))
        assert fleet.recoverer.recover("case-17", tier=Tier.CHECKPOINT).state == fleet.state()
    assert fleet.recoverer.recover("case-17", tier=Tier.CHECKPOINT).state == fleet.state()
