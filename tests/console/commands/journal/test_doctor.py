"""``seekpoint doctor`` on a real Kafka: what it finds, and what it advises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from shells import Shell

pytestmark = pytest.mark.cluster

PointAt = Callable[[Settings], None]


def found_by(shell: Shell, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    """The doctor's exit code, and the health of each subject."""
    ran = shell("doctor", "--json", *arguments)
    subjects: dict[str, list[str]] = {}
    for finding in ran.json["findings"]:
        subjects.setdefault(finding["subject"], []).append(finding["health"])
    return ran.code, subjects


@pytest.mark.usefixtures("on_cases")
def test_the_doctor_finds_what_is_wrong(shell: Shell) -> None:
    """A degraded process is a fault; a dead letter and what a dead node left are warnings; each with advice."""
    assert found_by(shell) == (
        1,
        {
            "kafka": ["ok"],
            "redis": ["ok"],
            "topics": ["warning"],
            "replicas": ["ok"],
            "permissions": ["ok"],
            "manifest": ["ok"],
            "view": ["warning"],
            "floors": ["warning"],
            "nodes": ["ok"],
            "processes": ["ok", "error", "warning"],
            "dead letters": ["warning"],
        },
    )
    text = shell("doctor").out
    assert "seekpoint recover case-gap --claim --accept-degraded" in text
    assert "seekpoint recover case-left --claim" in text


async def test_the_doctor_lists_living_nodes(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """Their heartbeats move while it looks; all is well then."""
    hasty = replace(journal, owner_timeout_s=5.0, heartbeat_interval_s=0.5)
    point_at(hasty)
    async with Node.connect(hasty) as node:
        await node.open("case-5")
        code, subjects = await asyncio.to_thread(found_by, shell)
        assert code == 0
        assert subjects["nodes"] == subjects["processes"] == ["ok"]


def test_the_doctor_reports_missing_topics_redis_and_kafka(
    shell: Shell, settings: Settings, point_at: PointAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No topics: a fault. No Redis: a warning. No Kafka: not reachable, and what stands on it is left out."""
    point_at(replace(settings, redis_url="redis://127.0.0.1:1/0"))
    code, subjects = found_by(shell)
    assert code == 1
    assert subjects["topics"] == ["error"]
    assert subjects["redis"] == ["warning"]
    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert found_by(shell) == (3, {"kafka": ["error"], "redis": ["warning"]})


@pytest.mark.usefixtures("on_cases")
def test_a_quick_doctor_does_not_read_the_journal(shell: Shell) -> None:
    """And says so."""
    code, subjects = found_by(shell, "--quick")
    assert code == 0
    assert subjects["processes"] == ["skipped"]
