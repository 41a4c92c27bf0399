"""A runtime of ActiveGraph whose program is killed with -9 goes on: only the call in flight is made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_programs import environment
from graph_kills import KilledRun, run_with_kills
from seekpoint import Settings

PROGRAM = Path(__file__).parents[2] / "support/killed_adapters/activegraph_program.py"


def _check(run: KilledRun, kills: int, *, first_call_s: float = 1.0) -> None:
    """No call of a model or a tool is made twice but the one in flight, and the next call comes in time."""
    print(run)
    assert run.wrong == []
    assert run.repeated <= run.kills == kills
    assert run.slowest_first_call_s <= first_call_s


def test_a_killed_runtime_on_an_embedded_log_goes_on(tmp_path: Path) -> None:
    """Three kills. How fast it goes on is for a machine that does nothing else."""
    _check(run_with_kills(
        str(tmp_path / "journal.db"), tmp_path, os.environ, kills=3, calls=45, seed=3, program=PROGRAM
    ), 3, first_call_s=30.0)  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_runtime_on_an_embedded_log_is_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """Fifty kills of one run."""
    _check(run_with_kills(
        str(tmp_path / "journal.db"), tmp_path, os.environ, kills=50, calls=450, seed=seed, program=PROGRAM
    ), 50)  # fmt: skip


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_runtime_on_kafka_is_killed_fifty_times(journal: Settings, tmp_path: Path) -> None:
    """Fifty kills of one run whose journal is on Kafka."""
    _check(run_with_kills("kafka", tmp_path, environment(journal), kills=50, calls=450, seed=5, program=PROGRAM), 50)
