"""A graph whose program is killed with -9 goes on from its newest checkpoint: only the call in flight is made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_programs import environment
from graph_kills import run_with_kills
from seekpoint import Settings


def test_a_killed_graph_on_an_embedded_log_goes_on(tmp_path: Path) -> None:
    """Five kills: no model call is made twice but the one in flight, and the next call comes within a second."""
    run = run_with_kills(str(tmp_path / "journal.db"), tmp_path, os.environ, kills=5, calls=40, seed=3)
    assert run.wrong == []
    assert run.repeated <= run.kills == 5
    assert run.slowest_first_call_s <= 1.0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_graph_on_an_embedded_log_is_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """Fifty kills of one run."""
    run = run_with_kills(str(tmp_path / "journal.db"), tmp_path, os.environ, kills=50, calls=400, seed=seed)
    print(run)
    assert run.wrong == []
    assert run.repeated <= run.kills == 50
    assert run.slowest_first_call_s <= 1.0


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_graph_on_kafka_is_killed_fifty_times(journal: Settings, tmp_path: Path) -> None:
    """Fifty kills of one run whose journal is on Kafka."""
    run = run_with_kills("kafka", tmp_path, environment(journal), kills=50, calls=400, seed=5)
    print(run)
    assert run.wrong == []
    assert run.repeated <= run.kills == 50
    assert run.slowest_first_call_s <= 1.0
