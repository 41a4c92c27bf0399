"""A durable run of the Agent Development Kit whose program is killed with -9 goes on, by an outside ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_programs import environment
from runner_kills import run_with_kills
from seekpoint import Settings, SyncNode


def _kill(
    journal: str, folder: Path, env: Mapping[str, str], node: Callable[[], SyncNode], kills: int, turns: int, seed: int
) -> None:
    """No call is made twice but those in flight at a kill, no payment twice, and each event is stored once."""
    run = run_with_kills(journal, folder, env, node, kills=kills, turns=turns, seed=seed, program="adk_program")
    print(run)
    assert run.wrong == []
    assert run.kills == kills
    assert run.repeated["model"] + run.repeated["look"] // 2 <= kills
    assert run.repeated["pay"] == 0
    with node() as running:
        session = running.recover("adk/session/shop/ada/buyer").state.context
        app = running.recover("adk/app/shop").state.context
    events = [value["event"] for key, value in sorted(session.items()) if key.startswith("event/")]
    assert [event["author"] for event in events] == ["user"] + ["buyer"] * (2 * turns + 1)
    assert len({event["id"] for event in events}) == len(events)
    assert set(app) == {"state/looks"}
    assert "outbox" not in session


def _in_a_file(tmp_path: Path, kills: int, turns: int, seed: int) -> None:
    path = tmp_path / "journal.db"
    _kill(str(path), tmp_path, os.environ, lambda: SyncNode.local(path), kills, turns, seed)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """Two kills."""
    _in_a_file(tmp_path, 2, 6, 1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_is_killed_fifty_times(tmp_path: Path) -> None:
    """On an embedded log."""
    _in_a_file(tmp_path, 50, 60, 3)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_run_on_kafka_is_killed_fifty_times(tmp_path: Path, journal: Settings) -> None:
    """With its session on the same Kafka."""
    _kill("kafka", tmp_path, environment(journal), lambda: SyncNode.connect(journal), 50, 60, 7)
