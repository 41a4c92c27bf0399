"""Topics on a real Kafka: created once, checked for ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from seekpoint.compose import TopicFinding, check_topics, create_topics
from seekpoint.compose.topic_admin import TopicAdmin, read_newest
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, JournalMismatch, JournalUnavailable
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest, schema_key
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, schema_json

pytestmark = pytest.mark.cluster


@pytest.fixture
def admin(settings: Settings) -> AdminClient:
    """Somebody with the keys to the cluster, and no idea what the topics are for."""
    return AdminClient({"bootstrap.servers": settings.bootstrap_servers})


def alter(admin: AdminClient, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values():
        future.result()


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic], operation_timeout=60)[topic].result()


async def errors(settings: Settings) -> list[tuple[str, str, str, str]]:
    return [(f.topic, f.setting, f.expected, f.found) for f in await check_topics(settings) if f.severity == "error"]


async def until_found(settings: Settings, topic: str, setting: str) -> TopicFinding:
    """The broker that answers may learn of a change a moment later than the controller."""
    async with asyncio.timeout(60):
        while True:
            for finding in await check_topics(settings):
                if (finding.topic, finding.setting) == (topic, setting):
                    return finding
            await asyncio.sleep(0.05)


async def test_a_new_journal_has_nothing_wrong_but_its_single_copy(journal: Settings) -> None:
    """What is created passes the audit; on one broker the audit warns of the missing copies, topic by topic."""
    findings = await check_topics(journal)
    assert {(f.setting, f.severity, f.found) for f in findings} == {("replication factor", "warning", "1")}
    assert len(findings) == 8


async def test_creating_twice_changes_nothing(journal: Settings) -> None:
    """The second call finds the manifest of the first and writes nothing."""
    schemas = journal.topic_name("schemas")
    before = await asyncio.to_thread(read_newest, journal, schemas)
    manifest = await create_topics(journal)
    assert await asyncio.to_thread(read_newest, journal, schemas) == before
    assert manifest == Manifest.from_bytes(before[MANIFEST_KEY])


async def test_two_concurrent_creations_agree(settings: Settings) -> None:
    """Both get the manifest of the same topics."""
    first, second = await asyncio.gather(create_topics(settings), create_topics(settings))
    assert first == second
    assert await errors(settings) == []


async def test_creation_writes_the_manifest_and_the_schemas(journal: Settings) -> None:
    """The schemas topic holds the manifest and the writer schema under its fingerprint."""
    records = await asyncio.to_thread(read_newest, journal, journal.topic_name("schemas"))
    assert records[schema_key(SCHEMA_FINGERPRINT)] == schema_json().encode()
    manifest = Manifest.from_bytes(records[MANIFEST_KEY])
    assert (manifest.journal, manifest.partitions) == (journal.journal, 4)
    assert journal.topic_name("journal") in manifest.topic_ids


async def test_a_missing_writer_schema_is_found_and_registered(
    journal: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer writer's schema is put into the journal before its first use, by creating again."""
    monkeypatch.setattr("seekpoint.compose.creation.SCHEMA_FINGERPRINT", b"\x01" * 8)
    assert await errors(journal) == [(journal.topic_name("schemas"), "writer schema", "registered", "missing")]
    await create_topics(journal)
    assert await errors(journal) == []


async def test_extra_topic_settings_reach_the_journal_topic(settings: Settings) -> None:
    """`settings.topic` is applied to the journal topic at its creation."""
    await create_topics(replace(settings, topic={"flush.messages": "1"}))
    found = [f for f in await check_topics(replace(settings, topic={"flush.messages": "2"})) if "flush" in f.setting]
    assert [(f.topic, f.expected, f.found) for f in found] == [(settings.topic_name("journal"), "2", "1")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"topic": {"flush.massages": "1"}}, r"flush\.massages"), ({"replication_factor": 3}, "replication factor")],
)
async def test_a_creation_that_kafka_refuses_creates_nothing(
    settings: Settings, change: dict[str, Any], reason: str
) -> None:
    """Not even the topics that Kafka would have taken."""
    with pytest.raises(InvalidSetting, match=f"(?i){reason}"):
        await create_topics(replace(settings, **change))
    assert {(found, setting) for _, setting, _, found in await errors(settings)} == {("missing", "topic")}
    assert len(await errors(settings)) == 8


async def test_a_client_setting_that_does_not_exist_is_refused(settings: Settings) -> None:
    """librdkafka knows its settings; its answer is typed and names the one it does not know."""
    with pytest.raises(InvalidSetting, match=r"socket\.timeout\.hours"):
        await create_topics(replace(settings, kafka={"socket.timeout.hours": "1"}))


async def test_limits_are_those_of_the_first_creation(settings: Settings) -> None:
    """The manifest keeps them, and the audit holds the topics against them."""
    limits = Limits(record_bytes=2_000_000)
    await create_topics(settings, limits=limits)
    assert (await create_topics(settings)).limits == limits
    assert await errors(settings) == []


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("journal", "retention.ms", "604800000"),
        ("journal", "retention.bytes", "1000000000"),
        ("journal", "cleanup.policy", "compact"),
        ("journal", "min.insync.replicas", "2"),
        ("journal", "unclean.leader.election.enable", "true"),
        ("journal", "message.timestamp.type", "LogAppendTime"),
        ("journal", "compression.type", "gzip"),
        ("journal", "max.message.bytes", "1048576"),
        ("checkpoints", "cleanup.policy", "compact,delete"),
        ("checkpoints", "min.cleanable.dirty.ratio", "0.5"),
        ("checkpoints", "max.compaction.lag.ms", "9223372036854775807"),
        ("checkpoints", "delete.retention.ms", "86400000"),
        ("checkpoints", "segment.ms", "604800000"),
        ("checkpoints", "max.message.bytes", "1048588"),
        ("recovered", "retention.ms", "-1"),
    ],
)
async def test_the_audit_finds_each_drift(
    journal: Settings, admin: AdminClient, kind: str, setting: str, value: str
) -> None:
    """Changed behind our back: the audit names topic, setting and value, and the command that mends it."""
    topic = journal.topic_name(kind)
    await asyncio.to_thread(alter, admin, topic, setting, value)
    finding = await until_found(journal, topic, setting)
    assert finding.found == value
    assert f"--topic {topic} --add-config {setting}=" in finding.advice


async def test_creating_over_a_wrong_topic_is_refused(settings: Settings, admin: AdminClient) -> None:
    """A topic with retention is not turned into a journal, nor is anything made beside it."""
    topic = settings.topic_name("journal")
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result()
    with pytest.raises(JournalMismatch) as caught:
        await create_topics(settings)
    assert (caught.value.topic, caught.value.setting) == (topic, "retention.ms")
    assert (caught.value.expected, caught.value.found) == ("-1", "604800000")
    assert (settings.topic_name("schemas"), "topic", "exists", "missing") in await errors(settings)


async def test_another_partition_count_is_refused(journal: Settings) -> None:
    """Settings that would map keys elsewhere than the journal does are an error with both numbers."""
    with pytest.raises(JournalMismatch) as caught:
        await create_topics(replace(journal, partitions=8))
    assert (caught.value.setting, caught.value.expected, caught.value.found) == ("partitions", "8", "4")


async def test_added_partitions_are_refused_whatever_the_settings_say(journal: Settings, admin: AdminClient) -> None:
    """The manifest remembers how many there were."""
    topic = journal.topic_name("journal")
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result()
    found = await until_found(replace(journal, partitions=6), topic, "partitions in the manifest")
    assert (found.expected, found.found) == ("4", "6")
    with pytest.raises(JournalMismatch, match="partitions"):
        await create_topics(replace(journal, partitions=6))


async def test_a_recreated_topic_is_refused(journal: Settings, admin: AdminClient) -> None:
    """Same name, same settings, another topic: offsets of the old one mean nothing in it."""
    topic = journal.topic_name("journal")
    old = (await create_topics(journal)).topic_ids[topic]
    await asyncio.to_thread(delete, admin, topic)
    config = {"retention.ms": "-1", "max.message.bytes": "10551296"}
    admin.create_topics([NewTopic(topic, 4, 1, config=config)])[topic].result()
    assert (await until_found(journal, topic, "topic id")).expected == old
    with pytest.raises(JournalMismatch) as caught:
        await create_topics(journal)
    assert (caught.value.topic, caught.value.setting, caught.value.expected) == (topic, "topic id", old)


async def test_a_deleted_topic_is_not_created_again(journal: Settings, admin: AdminClient) -> None:
    """A journal whose history was deleted is an error, not an empty journal."""
    topic = journal.topic_name("journal")
    await asyncio.to_thread(delete, admin, topic)
    assert (await until_found(journal, topic, "topic")).found == "missing"
    with pytest.raises(JournalMismatch) as caught:
        await create_topics(journal)
    assert (caught.value.topic, caught.value.found) == (topic, "none")


async def test_a_deleted_topic_of_short_lived_records_is_created_again(journal: Settings, admin: AdminClient) -> None:
    """Heartbeats and answers can be lost: their topics are not pinned by the manifest."""
    topic = journal.topic_name("nodes")
    await asyncio.to_thread(delete, admin, topic)
    await until_found(journal, topic, "topic")
    await create_topics(journal)
    assert await errors(journal) == []


async def test_a_topic_that_is_deleted_while_it_is_read_does_not_hold_the_reader(
    journal: Settings, admin: AdminClient
) -> None:
    """The reader looks whether the topic still exists, and does not wait for its leader until the time is over."""
    topic = journal.topic_name("schemas")
    await asyncio.to_thread(delete, admin, topic)
    looked: list[bool] = []

    def exists() -> bool:
        looked.append(topic in TopicAdmin(journal).topics([topic]))
        return looked[-1]

    async with asyncio.timeout(journal.start_timeout_s / 2):
        with pytest.raises(JournalUnavailable):
            while True:  # a broker may serve the topic for a moment after it has acknowledged the deletion
                await asyncio.to_thread(read_newest, journal, topic, exists)
    assert looked[-1] is False


async def test_entries_without_a_manifest_are_refused(journal: Settings, admin: AdminClient) -> None:
    """A lost schemas topic beside a full journal is not papered over with a new manifest."""
    producer = Producer({"bootstrap.servers": journal.bootstrap_servers})
    producer.produce(journal.topic_name("journal"), b"entry", partition=1)
    assert producer.flush(10) == 0
    await asyncio.to_thread(delete, admin, journal.topic_name("schemas"))
    await until_found(journal, journal.topic_name("schemas"), "topic")
    with pytest.raises(JournalMismatch, match="manifest is gone"):
        await create_topics(journal)


async def test_a_kafka_that_does_not_answer_is_unavailable() -> None:
    """Within start_timeout_s, typed, naming the address."""
    settings = Settings(bootstrap_servers="127.0.0.1:1", start_timeout_s=0.5)
    with pytest.raises(JournalUnavailable, match=r"127\.0\.0\.1:1"):
        await create_topics(settings)


async def test_the_topic_of_the_recovery_workers_is_known(settings: Settings, admin: AdminClient) -> None:
    """Where none ever ran it is not missing; where it is, it has one partition and the replicas of the others."""
    await create_topics(settings)
    leader = f"{settings.journal}.recovery-__assignor-__leader"
    assert leader not in {finding.topic for finding in await check_topics(settings)}
    admin.create_topics([NewTopic(leader, 2, 1)])[leader].result()
    assert (await until_found(settings, leader, "partitions")).expected == "1"
    assert (await until_found(settings, leader, "replication factor")).severity == "warning"
