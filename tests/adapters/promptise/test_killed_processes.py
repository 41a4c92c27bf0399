"""A process of Promptise whose program is killed with -9 goes on; an outside ledger has the calls that were made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

import pytest

from agent_programs import environment
from seekpoint import Settings

PROGRAM = Path(__file__).parents[2] / "support" / "killed_adapters" / "promptise_program.py"


def _killed(tmp_path: Path, journal: str, env: Mapping[str, str], *, runs: int, kills: int, seed: int) -> list[str]:
    """Run the program; return the lines of its ledger."""
    ledger = tmp_path / "ledger"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), journal, str(ledger), str(runs), str(kills), str(seed)],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return ledger.read_text().splitlines()


def _check(lines: list[str], *, runs: int, kills: int) -> list[float]:
    """No call of a run that is over is made again, and nothing acknowledged is lost; return the times to first calls.

    At most the run in flight at a kill is made again, from its beginning.
    """
    rows = [line.split() for line in lines]
    assert [call for _, call, _ in rows if call.startswith("wrong")] == []
    acked, newest, first_calls_s = set[int](), -1, list[float]()
    made: Counter[str] = Counter()
    for pid, group in groupby(rows, key=lambda row: row[0]):
        calls = [(call, float(seconds)) for _, call, seconds in group]
        first_calls_s.append(calls[0][1])
        for call, _ in calls:
            kind, number = call.rpartition("-")[0], int(call.rpartition("-")[2])
            if kind == "acked":
                acked.add(number)
                continue
            assert number not in acked, f"the child {pid} made {kind} {number} again"
            assert number in (newest, newest + 1), f"the child {pid} made {kind} {number} after {newest}"
            newest = max(newest, number)
            made[f"{kind}-{number}"] += 1
    assert newest == runs - 1
    assert {f"{kind}-{number}" for kind in ("model", "work", "answer") for number in range(runs)} == set(made)
    for kind in ("model", "work", "answer"):
        assert sum(count - 1 for call, count in made.items() if call.startswith(kind)) <= kills
    return first_calls_s


def test_a_killed_process_goes_on(tmp_path: Path) -> None:
    """Three kills."""
    _check(_killed(tmp_path, str(tmp_path / "journal.db"), {}, runs=12, kills=3, seed=1), runs=12, kills=3)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_process_is_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """On an embedded log; the first call comes within a second."""
    lines = _killed(tmp_path, str(tmp_path / "journal.db"), {}, runs=200, kills=50, seed=seed)
    first_calls_s = _check(lines, runs=200, kills=50)
    assert max(first_calls_s) <= 1.0, first_calls_s


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_process_on_kafka_is_killed_fifty_times(tmp_path: Path, journal: Settings) -> None:
    """The next child recovers at once what the killed one has written."""
    lines = _killed(tmp_path, "kafka", environment(journal), runs=120, kills=50, seed=7)
    first_calls_s = _check(lines, runs=120, kills=50)
    assert max(first_calls_s) <= 1.0, first_calls_s
