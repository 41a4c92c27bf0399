"""Compute the settings of a local Kafka broker from its number, its ports and the cluster size. Pure."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

BrokerPorts = tuple[int, int]
"""The port for clients and the port for controllers."""

_INTERNAL_PARTITIONS = "4"


def broker_properties(
    node: int, ports: Sequence[BrokerPorts], data: Path, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return ``server.properties`` of broker ``node`` (1, 2, …). ``ports`` lists all brokers; ``extra`` overrides."""
    client, controller = ports[node - 1]
    voters = ",".join(f"{index}@127.0.0.1:{port}" for index, (_, port) in enumerate(ports, start=1))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
        "log.dirs": str(data),
        **_for_size(len(ports)),
        **_LOCAL,
        **(extra or {}),
    }


_LOCAL: Mapping[str, str] = {
    "auto.create.topics.enable": "false",  # an auto-created topic has the wrong settings
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",  # 128 MB of each heap otherwise
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": _INTERNAL_PARTITIONS,
    "transaction.state.log.num.partitions": _INTERNAL_PARTITIONS,
    "share.coordinator.state.topic.num.partitions": _INTERNAL_PARTITIONS,
    # A killed broker can register again only after its old session expires.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def _for_size(brokers: int) -> dict[str, str]:
    replicas, in_sync = str(min(3, brokers)), "2" if brokers >= 3 else "1"
    return {
        # After a controlled shutdown a single broker can register again at once. Three brokers that stop together lose
        # their quorum, and the last one would wait for it.
        "controlled.shutdown.enable": "true" if brokers == 1 else "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def meta_properties(node: int, cluster_id: str) -> dict[str, str]:
    """Return ``meta.properties`` of a new data directory, as the storage tool writes it."""
    return {"version": "1", "cluster.id": cluster_id, "node.id": str(node), "directory.id": kafka_uuid()}


def kafka_uuid() -> str:
    """Return a random id in Kafka's notation. It never starts with a dash, which the tools read as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def to_text(properties: Mapping[str, str]) -> str:
    """Return the properties in Java's format."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())
