"""A workflow of AGNT5 whose program is killed with -9 goes on; an outside ledger has the calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_programs import environment
from agnt5_kills import run_with_kills
from killed_programs import KilledRun
from seekpoint import Node, Settings


def _check(run: KilledRun, kills: int) -> None:
    """No call is made twice but the one in flight at a kill, and no payment."""
    print(run)
    assert run.wrong == []
    assert run.kills == kills
    assert run.repeated.total() <= kills
    assert run.repeated["pay"] == 0


def _in_a_file(tmp_path: Path, kills: int, turns: int, seed: int) -> KilledRun:
    path = tmp_path / "journal.db"
    run = run_with_kills(
        str(path), tmp_path, os.environ, lambda: Node.local(path), kills=kills, turns=turns, seed=seed
    )  # fmt: skip
    _check(run, kills)
    return run


@pytest.mark.timeout(300)
def test_a_killed_workflow_goes_on(tmp_path: Path) -> None:
    """Three kills."""
    _in_a_file(tmp_path, 3, 9, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_a_workflow_is_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """On an embedded log. The next call comes within a second of a program that could begin."""
    run = _in_a_file(tmp_path, 50, 120, seed)
    assert max(run.first_calls_s) <= 1.0


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_workflow_on_kafka_is_killed_fifty_times(tmp_path: Path, journal: Settings) -> None:
    """The same on Kafka."""
    run = run_with_kills(
        "kafka", tmp_path, environment(journal), lambda: Node.connect(journal), kills=50, turns=60, seed=7
    )  # fmt: skip
    _check(run, 50)
    assert max(run.first_calls_s) <= 1.0
