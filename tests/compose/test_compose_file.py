"""`compose.yaml`: what it says, and that it works where a Docker engine answers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from seekpoint.compose import check_topics, create_topics
from seekpoint.compose.ports import free_ports
from seekpoint.compose.runtime import KAFKA_VERSION
from seekpoint.schemas.settings import Settings

COMPOSE_FILE = Path(__file__).parents[2] / "compose" / "compose.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the file."""
    services: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    return services


def test_the_file_runs_the_kafka_we_test_with(services: dict[str, Any]) -> None:
    """The same version as the local cluster's, on the port the settings default to."""
    assert services["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert services["kafka"]["ports"] == ["127.0.0.1:${SEEKPOINT_KAFKA_PORT:-9092}:9092"]
    assert Settings().bootstrap_servers == "127.0.0.1:9092"


def test_a_single_brokers_own_topics_have_one_copy(services: dict[str, Any]) -> None:
    """Whatever replication Kafka's defaults ask for is set to what one broker can give."""
    environment = services["kafka"]["environment"]
    copies = {name: value for name, value in environment.items() if name.endswith(("REPLICATION_FACTOR", "MIN_ISR"))}
    assert len(copies) == 5
    assert set(copies.values()) == {"1"}
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_valkey_keeps_what_it_is_given(services: dict[str, Any]) -> None:
    """No eviction, an append-only file."""
    command = services["valkey"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"


def test_every_service_keeps_its_data_and_tells_its_health(services: dict[str, Any]) -> None:
    """`up --wait` waits for the checks, a restart finds the volumes; nothing listens beyond this machine."""
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["volumes"][0].startswith(f"{name}:/"), name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name


def why_no_engine() -> str | None:
    """Why Docker cannot be used here; None if it can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        try:
            asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            return f"`{' '.join(command)}` does not answer"
        if asked.returncode != 0:
            return f"`{' '.join(command)}`: {(asked.stderr or asked.stdout).strip().splitlines()[-1]}"
    return None


@pytest.fixture(scope="session")
def docker_compose_file() -> Iterator[str]:
    """For pytest-docker: our file, on free ports; or a skip that says why."""
    reason = why_no_engine()
    if reason is not None:
        pytest.skip(f"no Docker engine: {reason}")
    kafka, redis = free_ports(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEEKPOINT_KAFKA_PORT", str(kafka))
        patch.setenv("SEEKPOINT_REDIS_PORT", str(redis))
        yield str(COMPOSE_FILE)


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    """For pytest-docker: up, and healthy."""
    return ["up --detach --wait --wait-timeout 180"]


@pytest.mark.docker
async def test_a_journal_is_created_on_the_containers(docker_compose_file: str, docker_services: object) -> None:
    """Topics are created and pass the audit; Valkey answers."""
    settings = Settings(
        journal="docker", partitions=2, bootstrap_servers=f"127.0.0.1:{os.environ['SEEKPOINT_KAFKA_PORT']}"
    )
    await create_topics(settings)
    assert {finding.severity for finding in await check_topics(settings)} == {"warning"}
    with socket.create_connection(("127.0.0.1", int(os.environ["SEEKPOINT_REDIS_PORT"])), 5) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(64).startswith(b"+PONG")
