"""An agent of Pydantic AI whose program is killed with -9 goes on; an outside ledger has the calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_programs import environment
from killed_programs import KilledRun
from runner_kills import run_with_kills
from seekpoint import Node, Settings, SyncNode
from seekpoint.adapters.pydantic_ai import SeekpointConversationStore


def _check(run: KilledRun, kills: int, node: Callable[[], Node], turns: int) -> None:
    """No call is made twice but those in flight at a kill, no payment twice; the next call comes within a second.

    The conversation was saved once, and whole.
    """
    print(run)
    assert run.wrong == []
    assert run.kills == kills
    assert run.repeated["model"] + run.repeated["look"] // 2 <= kills
    assert run.repeated["pay"] == 0
    assert kills < 50 or max(run.first_calls_s[1:]) <= 1.0  # of the programs that go on

    async def stored() -> int:
        async with node() as running:
            found = await SeekpointConversationStore(running).load("buyer")
            return 0 if found is None else len(found.messages)

    assert asyncio.run(stored()) == 2 * turns + 2


def _in_a_file(tmp_path: Path, kills: int, turns: int, seed: int) -> None:
    path = tmp_path / "journal.db"
    run = run_with_kills(
        str(path), tmp_path, os.environ, lambda: SyncNode.local(path), kills=kills, turns=turns, seed=seed,
        program="pydantic_program",
    )  # fmt: skip
    _check(run, kills, lambda: Node.local(path), turns)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """Two kills."""
    _in_a_file(tmp_path, 2, 6, 1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_run_is_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """On an embedded log."""
    _in_a_file(tmp_path, 50, 60, seed)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_run_on_kafka_is_killed_fifty_times(tmp_path: Path, journal: Settings) -> None:
    """With its conversation on the same Kafka."""
    run = run_with_kills(
        "kafka", tmp_path, environment(journal), lambda: SyncNode.connect(journal), kills=50, turns=60, seed=7,
        program="pydantic_program",
    )  # fmt: skip
    _check(run, 50, lambda: Node.connect(journal), 60)
