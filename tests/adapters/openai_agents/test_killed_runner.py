"""A durable run of the OpenAI Agents SDK whose program is killed with -9 goes on; an outside ledger has the calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_programs import environment
from killed_programs import KilledRun
from runner_kills import run_with_kills
from seekpoint import Settings, SyncNode


def _check(run: KilledRun, kills: int, first_call_max_s: float = 1.0) -> None:
    """No call is made twice but those in flight at a kill, no payment twice; the next call comes soon."""
    print(run)
    assert run.wrong == []
    assert run.kills == kills
    assert run.repeated["model"] + run.repeated["look"] // 2 <= kills
    assert run.repeated["pay"] == 0
    assert max(run.first_calls_s) <= first_call_max_s


def _in_a_file(tmp_path: Path, kills: int, turns: int, seed: int) -> KilledRun:
    path = tmp_path / "journal.db"
    return run_with_kills(
        str(path), tmp_path, os.environ, lambda: SyncNode.local(path), kills=kills, turns=turns, seed=seed
    )


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """Three kills. How soon the next call comes is for the long tests: this one runs beside others."""
    _check(_in_a_file(tmp_path, 3, 12, 1), 3, first_call_max_s=60)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_run_is_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """On an embedded log."""
    _check(_in_a_file(tmp_path, 50, 120, seed), 50)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_run_on_kafka_is_killed_fifty_times(tmp_path: Path, journal: Settings) -> None:
    """With the items of its session on the same Kafka."""
    run = run_with_kills(
        "kafka", tmp_path, environment(journal), lambda: SyncNode.connect(journal), kills=50, turns=60, seed=7
    )
    _check(run, 50)
