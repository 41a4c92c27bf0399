"""What the manifests for Kubernetes, the unit of systemd and the Dockerfiles say is so."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import typer

from manifests import manifests, problems
from seekpoint.console.cli import app
from seekpoint.schemas.config.settings import Settings

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "compose" / "kubernetes").glob("*.yaml"))
UNIT = ROOT / "compose" / "systemd" / "seekpoint-worker.service"
DOCKERFILE = ROOT / "examples" / "fastapi" / "Dockerfile"
CLI: Any = typer.main.get_command(app)
ALL = manifests(*FILES)
CLOSING_S = 20.0
"""What the release of runs, the end of the group membership and the end of the node may take after a drain."""


def one(kind: str, name: str) -> dict[str, Any]:
    """The manifest with this kind and name."""
    (found,) = [each for each in ALL if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


WORKER = one("Deployment", "refund-worker")


def pods() -> list[dict[str, Any]]:
    """The templates of all pods."""
    return [each["spec"]["template"] for each in ALL if each["kind"] in ("Deployment", "Job")]


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods() for container in pod["spec"]["containers"]]


def options(words: list[str]) -> dict[str, Any]:
    """The values of a command line's options. Fails if the command does not take them."""
    command = CLI
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    values: dict[str, Any] = command.make_context("seekpoint", list(words)).params
    return values


@pytest.mark.parametrize("manifest", ALL, ids=lambda each: f"{each['kind']}/{each['metadata']['name']}")
def test_kubernetes_knows_every_field(manifest: dict[str, Any]) -> None:
    """And finds all that it requires, with the right types."""
    assert list(problems(manifest)) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda one: one["spec"]["template"]["spec"].pop("containers"), "missing required field `containers`"),
        (lambda one: one["spec"].update(replica=3), "there is no field replica"),
        (lambda one: one["spec"].update(replicas="3"), "Expected `int"),
        (lambda one: one["spec"]["template"]["spec"]["containers"][0]["livenessProbe"].update(httpget={}), "httpget"),
    ],
)
def test_a_manifest_with_a_mistake_is_noticed(change: Callable[[Any], object], found: str) -> None:
    """A field that is missing, unknown, or of another type."""
    broken = deepcopy(WORKER)
    change(broken)
    assert found in "; ".join(problems(broken))


@pytest.mark.parametrize("container", containers(), ids=lambda each: str(each["name"]))
def test_the_commands_of_the_containers_exist(container: dict[str, Any]) -> None:
    """With all their options; the probes ask the health port for pages that it serves."""
    given = options(container["args"])
    for probe in ("livenessProbe", "readinessProbe"):
        if probe in container:
            (port,) = container["ports"]
            assert container[probe]["httpGet"]["port"] == port["name"]
            assert given["health_port"] == port["containerPort"]
            assert given["health_host"] == "0.0.0.0"
    if "health_port" in given:
        assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_worker_has_time_to_drain() -> None:
    """Before Kubernetes or systemd kill it."""
    pod = WORKER["spec"]["template"]["spec"]
    drain_s = options(pod["containers"][0]["args"])["drain_s"]
    assert pod["terminationGracePeriodSeconds"] >= drain_s + CLOSING_S
    drain_s = options(shlex.split(_unit("ExecStart").replace("%i", "1"))[1:])["drain_s"]
    assert float(_unit("TimeoutStopSec")) >= drain_s + CLOSING_S


def _unit(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def test_the_unit_drains_by_sigterm_and_starts_again() -> None:
    """Whatever the exit code was; a Kafka that is away for long does not end the attempts."""
    assert (_unit("KillSignal"), _unit("Restart"), _unit("StartLimitIntervalSec")) == ("SIGTERM", "always", "0")


def test_the_settings_of_the_pods_load(tmp_path: Path) -> None:
    """The secrets are files of the volume that every container mounts."""
    given = dict(one("ConfigMap", "seekpoint")["data"])
    folder = "/run/secrets/seekpoint"
    for name, secret in one("Secret", "seekpoint")["stringData"].items():
        (tmp_path / name).write_text(secret)
    environ = {name: value.replace(folder, str(tmp_path)) for name, value in given.items()}
    settings = Settings.load(environ=environ)
    assert settings.kafka["sasl.password"] == "change-me"
    for pod in pods():
        (volume,) = pod["spec"]["volumes"]
        assert volume["secret"]["secretName"] == "seekpoint"
        for container in pod["spec"]["containers"]:
            assert container["envFrom"] == [{"configMapRef": {"name": "seekpoint"}}]
            assert [mount["mountPath"] for mount in container["volumeMounts"]] == [folder]


def test_the_manifests_name_each_other() -> None:
    """Selectors, the budget and the autoscaler mean the workers; there are partitions for as many as there may be."""
    labels = WORKER["spec"]["template"]["metadata"]["labels"]
    for selector in (WORKER["spec"]["selector"], one("PodDisruptionBudget", "refund-worker")["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    scaler = one("HorizontalPodAutoscaler", "refund-worker")["spec"]
    assert scaler["scaleTargetRef"]["name"] == WORKER["metadata"]["name"]
    assert scaler["minReplicas"] == WORKER["spec"]["replicas"]
    assert scaler["maxReplicas"] <= int(one("ConfigMap", "seekpoint")["data"]["SEEKPOINT_PARTITIONS"])


def test_no_pod_runs_as_root() -> None:
    """The user is that of the image."""
    assert "useradd --create-home --uid 1000 " in (ROOT / "compose" / "Dockerfile").read_text()
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["securityContext"]["runAsUser"] == 1000
    assert all(not container["securityContext"]["allowPrivilegeEscalation"] for container in containers())


def test_the_image_of_the_example_runs_a_worker() -> None:
    """As the image of Seekpoint starts `seekpoint`, its command is the rest."""
    text = DOCKERFILE.read_text()
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert list(options(json.loads(command))["modules"]) == ["refund_agents"]
    (copied,) = re.findall(r"^COPY (\S+) \./$", text, re.MULTILINE)
    assert (DOCKERFILE.parent / copied).exists()
    assert re.search(r"^FROM seekpoint$", text, re.MULTILINE)
    assert 'ENTRYPOINT ["seekpoint"]' in (ROOT / "compose" / "Dockerfile").read_text()


def test_kafka_and_redis_are_reached_over_tls_with_passwords_of_a_secret() -> None:
    """And no container may write to its root."""
    found = one("ConfigMap", "seekpoint")["data"]
    assert found["SEEKPOINT_REDIS_URL"].startswith("rediss://")
    assert found["SEEKPOINT_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
    names = {Path(value).name for name, value in found.items() if name.endswith("_PASSWORD_FILE")}
    assert names == set(one("Secret", "seekpoint")["stringData"]) == {"kafka-password", "redis-password"}
    assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in containers())
