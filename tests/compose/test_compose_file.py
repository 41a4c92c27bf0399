"""`compose.yaml`: what it says, and that it works where a Docker engine answers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from seekpoint.compose import check_topics, create_topics
from seekpoint.compose.cluster_ports import free_ports
from seekpoint.compose.setup_phases import KAFKA_VERSION
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings

COMPOSE_FILE = Path(__file__).parents[2] / "compose" / "compose.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the file."""
    services: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    return services


def test_the_compose_file_runs_the_tested_kafka_version(services: dict[str, Any]) -> None:
    """The same version as the local cluster's, on the port the settings default to."""
    assert services["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert services["kafka"]["ports"] == ["127.0.0.1:${KAFKA_PORT:-9092}:9092"]
    assert Settings().bootstrap_servers == "127.0.0.1:9092"


def test_internal_topics_of_a_single_broker_have_one_replica(services: dict[str, Any]) -> None:
    """Whatever replication Kafka's defaults ask for is set to what one broker can give."""
    environment = services["kafka"]["environment"]
    copies = {name: value for name, value in environment.items() if name.endswith(("REPLICATION_FACTOR", "MIN_ISR"))}
    assert len(copies) == 5
    assert set(copies.values()) == {"1"}
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_valkey_persists_its_data_and_evicts_nothing(services: dict[str, Any]) -> None:
    """No eviction, an append-only file."""
    command = services["valkey"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"


def test_every_server_has_a_volume_and_every_service_a_health_check(services: dict[str, Any]) -> None:
    """`up --wait` waits for the checks, a restart finds the volumes; nothing listens beyond this machine."""
    assert services.keys() == {"kafka", "valkey", "projector"}
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert name == "projector" or service["volumes"][0].startswith(f"{name}:/"), name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name


def test_the_projector_image_is_built_from_this_checkout(services: dict[str, Any]) -> None:
    """Its image is built from here; it waits for the others, finds them inside, and its settings are some."""
    projector = services["projector"]
    build = projector["build"]
    context = COMPOSE_FILE.parent / build["context"]
    dockerfile = (context / build["dockerfile"]).read_text()
    assert "pip install" in dockerfile
    assert 'ENTRYPOINT ["seekpoint"]' in dockerfile
    assert {name: on["condition"] for name, on in projector["depends_on"].items()} == dict.fromkeys(
        ("kafka", "valkey"), "service_healthy"
    )
    given = {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value) for name, value in projector["environment"].items()}
    settings = Settings.load(environ=given)
    kafka = services["kafka"]["environment"]
    assert f"INSIDE://{settings.bootstrap_servers}" in kafka["KAFKA_ADVERTISED_LISTENERS"]
    assert (settings.journal, settings.partitions) == (Settings().journal, Settings().partitions)
    assert settings.redis_url == "redis://valkey:6379/0"


def test_the_image_contains_all_sources_of_the_wheel() -> None:
    """And neither the history nor what happens to lie about."""
    ignored = COMPOSE_FILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    wheel = tomllib.loads((COMPOSE_FILE.parents[1] / "pyproject.toml").read_text())
    project, build = wheel["project"], wheel["tool"]["hatch"]["build"]["targets"]["wheel"]
    roots = {package.partition("/")[0] for package in build["packages"]}
    assert "*" in ignored
    assert let_in == {*roots, "pyproject.toml", project["readme"], *project["license-files"]}


@pytest.mark.cluster
def test_the_commands_of_the_projectors_container_work(
    services: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    """The line that the container runs, on this machine: topics, then a projector; its health check succeeds."""
    projector, [port] = services["projector"], free_ports(1)
    [line] = (text.replace("8081", str(port)).replace("0.0.0.0", "127.0.0.1") for text in projector["command"])
    check = [part.replace("8081", str(port)) for part in projector["healthcheck"]["test"][1:]]
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SEEKPOINT_JOURNAL": settings.journal,
        "SEEKPOINT_PARTITIONS": str(settings.partitions),
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "SEEKPOINT_REDIS_URL": settings.redis_url or "",
    }
    with subprocess.Popen([*projector["entrypoint"], line], cwd=tmp_path, env=environ) as running:
        try:
            deadline = time.monotonic() + 60
            while subprocess.run(check, env=environ, capture_output=True, check=False).returncode != 0:
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
            running.terminate()
            assert running.wait(120) == 0
        finally:
            running.kill()


def why_no_engine() -> str | None:
    """Why Docker cannot be used here; None if it can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        try:
            asked = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
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
    kafka, redis, health = free_ports(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_PORT", str(kafka))
        patch.setenv("REDIS_PORT", str(redis))
        patch.setenv("PROJECTOR_PORT", str(health))
        yield str(COMPOSE_FILE)


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    """For pytest-docker: up, and healthy."""
    return ["up --build --detach --wait --wait-timeout 300"]


@pytest.mark.docker
async def test_a_journal_is_created_on_the_containers(docker_compose_file: str, docker_services: object) -> None:
    """Topics are created and pass the audit; Valkey answers."""
    settings = Settings(journal="docker", partitions=2, bootstrap_servers=f"127.0.0.1:{os.environ['KAFKA_PORT']}")
    await create_topics(settings)
    assert {finding.severity for finding in await check_topics(settings)} == {"warning"}
    with socket.create_connection(("127.0.0.1", int(os.environ["REDIS_PORT"])), 5) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(64).startswith(b"+PONG")
    projected = Settings(bootstrap_servers=settings.bootstrap_servers, redis_url=f"redis://127.0.0.1:{_port('REDIS')}")
    async with Node.connect(projected) as node, node.open("case-1") as process:
        await process.update("a", 1)
        await process.checkpoint()


def _port(of: str) -> str:
    return os.environ[f"SEEKPOINT_{of}_PORT"]
