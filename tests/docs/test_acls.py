"""The ACLs of docs/operate/connect.md are enough for each user, on a real Kafka with users."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import seekpoint.compose.local_cluster
from pages import ROOT, table
from seekpoint.compose import LocalCluster, check_topics, create_topics, create_topics_sync
from seekpoint.compose.brokers import BrokerPorts, broker_properties
from seekpoint.compose.cluster_ports import free_ports
from seekpoint.consumers import DeadLetters, Recovery
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.staging import Plan, Replay, ReplayReport, Selection
from seekpoint.producers import Node
from seekpoint.schemas import Settings, partition_of
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.errors import AppendRefused, JournalUnavailable

pytestmark = pytest.mark.cluster

USERS = {"a reader": "reader", "a node": "node", "`topics create`": "creator"}
ROWS = [
    (next(user for said, user in USERS.items() if who.startswith(said)), resource, operations)
    for who, resource, operations in table(ROOT / "docs" / "operate" / "connect.md", "who", "resource", "operations")
]
_MECHANISM = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def guarded(port: int) -> Mapping[str, str]:
    """What a broker needs to know its users by name, and to refuse what nobody allowed them. Who asks at the other
    listener may do anything: the broker itself, and this test."""
    users = (*USERS.values(), "source", "target", "stranger")
    passwords = " ".join(f'user_{user}="{user}-secret"' for user in users)
    return {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,NAMED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.named.plain.sasl.jaas.config": f"{_MECHANISM} {passwords};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[LocalCluster, int]]:
    """A cluster with ACLs, and the port where its users log in."""
    [port] = free_ports(1)

    def with_users(node: int, ports: list[BrokerPorts], data: Path, extra: Mapping[str, str]) -> dict[str, str]:
        properties = broker_properties(node, ports, data, {**extra, **guarded(port)})
        for name in ("listeners", "advertised.listeners"):
            properties[name] += f",NAMED://127.0.0.1:{port}"
        return properties

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seekpoint.compose.local_cluster, "broker_properties", with_users)
        with LocalCluster() as cluster:
            yield cluster, port


@pytest.fixture
def allowed(door: tuple[LocalCluster, int]) -> None:
    """The table's ACLs for the journal ``fleet``, and no others."""
    admin = AdminClient({"bootstrap.servers": door[0].bootstrap_servers})
    bindings = [binding for row in ROWS for binding in bindings_of(*row)]
    # A node may do what a reader may, as its row says.
    bindings += [binding for user, *row in ROWS if user == "reader" for binding in bindings_of("node", *row)]
    for future in admin.create_acls(list(dict.fromkeys(bindings))).values():
        future.result()
    deadline = time.monotonic() + 60
    while True:  # the authorizer hears of them a moment after they were made
        try:
            create_topics_sync(settings_of("creator", door))
        except (JournalUnavailable, AppendRefused):
            assert time.monotonic() < deadline
        else:
            return


def bindings_of(user: str, resource: str, operations: str) -> list[AclBinding]:
    """The ACLs of one row."""
    kind, name = re.findall(r"(topic|group) `(NAME\.\w*)`", resource)[-1]
    pattern = ResourcePatternType.PREFIXED if "prefixed" in resource else ResourcePatternType.LITERAL
    return [
        AclBinding(
            ResourceType[kind.upper()], name.replace("NAME", "fleet"), pattern, f"User:{user}", "*",
            AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()], AclPermissionType.ALLOW,
        )
        for operation in operations.split(", ")
    ]  # fmt: skip


def settings_of(user: str, door: tuple[LocalCluster, int], **more: Any) -> Settings:
    """As ``user`` would write them."""
    sasl = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": f"{user}-secret"}
    return Settings(
        journal="fleet",
        bootstrap_servers=f"127.0.0.1:{door[1]}",
        redis_url=None,
        kafka={"security.protocol": "SASL_PLAINTEXT", **sasl},
        **more,
    )


async def test_a_user_without_acls_is_refused_everything(door: tuple[LocalCluster, int]) -> None:
    """Else the next test proves nothing."""
    with pytest.raises(JournalUnavailable, match="authorization"):
        await create_topics(settings_of("stranger", door))


async def test_the_acls_of_the_table_suffice(door: tuple[LocalCluster, int], allowed: None) -> None:
    """To create and audit the topics, to work as a process, to signal, to read it, to keep poison."""
    manifest = await create_topics(settings_of("creator", door))
    assert await create_topics(settings_of("creator", door)) == manifest
    assert {finding.severity for finding in await check_topics(settings_of("creator", door))} == {"warning"}
    async with Node.connect(settings_of("node", door)) as node:
        await node.signal("case-17", "go")
        async with node.open("case-17") as process:
            await process.receive("go", timeout_s=60)
            await process.confirm()
    poison(door[0], b"case-17")
    async with Recovery.connect(settings_of("reader", door)) as recovery:
        recovered = await recovery.recover("case-17")
        assert (await recovery.verify("case-17")).agrees
    assert (recovered.state.seq, recovered.report.poison, recovered.report.notes) == (2, 1, ())
    reader = KafkaReader(settings_of("reader", door))
    assert len(DeadLetters(reader, reader.settings).list()) == 1
    reader.close()


async def test_a_writer_without_write_permission_gets_an_error(door: tuple[LocalCluster, int], allowed: None) -> None:
    """A reader's credentials on a node: a typed error, at once."""
    await create_topics(settings_of("creator", door))
    with pytest.raises(AppendRefused, match="authorization"):
        async with Node.connect(settings_of("reader", door)) as node:
            await node.open("case-18")


async def test_the_acls_of_a_replay_suffice(door: tuple[LocalCluster, int], allowed: None) -> None:
    """docs/replay.md: to read a journal and write another; and with the rows for it, a slice with its states."""
    await create_topics(settings_of("creator", door))
    async with Node.connect(settings_of("node", door)) as node, node.open("case-19") as process:
        for number in range(3):
            await process.update("n", number)
    await create_topics(Settings(journal="staged", bootstrap_servers=door[0].bootstrap_servers, redis_url=None))
    admin = AdminClient({"bootstrap.servers": door[0].bootstrap_servers})
    at = partition_of(b"case-19", 8)
    slice_ = Plan(seeded=True, prefix="slice-", selection=Selection(offsets={at: (2, None)}))
    rows = table(ROOT / "docs" / "replay.md", "on", "resource", "operations")
    for plan in (Plan(), slice_):
        bindings = [each for row in rows if plan.seeded or "--seeded" not in row[0] for each in replay_bindings(*row)]
        for future in admin.create_acls(list(dict.fromkeys(bindings))).values():
            future.result()
        report = await asyncio.to_thread(replayed, door, plan)
        assert report.checked
    assert report.seeded == 1


def replayed(door: tuple[LocalCluster, int], plan: Plan) -> ReplayReport:
    """By users who may do what the table says; the authorizer hears of it a moment after."""
    clusters = {
        user: Cluster(name=user, settings=settings_of(user, door, start_timeout_s=5), is_staging=user == "target")
        for user in ("source", "target")
    }
    deadline = time.monotonic() + 60
    while True:
        try:
            with Replay.connect("source/fleet.journal", "target/staged.journal", plan, clusters=clusters) as made:
                return made.run()
        except (JournalUnavailable, AppendRefused):
            if time.monotonic() > deadline:
                raise


def replay_bindings(on: str, resource: str, operations: str) -> list[AclBinding]:
    """The ACLs of one row; ``the topic`` is the journal's."""
    user = "target" if "target" in on else "source"
    name = "fleet" if user == "source" else "staged"
    topics = [f"{name}.journal"] if resource.startswith("the topic") else []
    named = re.findall(r"`([\w.-]+)`", resource)
    kind = "GROUP" if resource.startswith("group") else "TOPIC"
    pattern = ResourcePatternType.PREFIXED if "prefixed" in resource else ResourcePatternType.LITERAL
    return [
        AclBinding(
            ResourceType[kind], one.replace("NAME", name), pattern, f"User:{user}", "*",
            AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()], AclPermissionType.ALLOW,
        )
        for one in (*topics, *named) for operation in operations.split(", ")
    ]  # fmt: skip


def poison(cluster: LocalCluster, key: bytes) -> None:
    """One record that is no entry."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    with suppress(BufferError):
        producer.produce("fleet.journal", b"no entry", key, partition=partition_of(key, 8))
    assert producer.flush(10) == 0
