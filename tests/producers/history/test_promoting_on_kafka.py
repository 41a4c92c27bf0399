"""Promotions by programs that are killed, on a real Kafka. An outside ledger tells which bodies ran."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent_programs import check, environment
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from seekpoint.schemas import bodies as b

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).parents[2] / "support" / "agents" / "promoting_program.py"


def run_story(settings: Settings, ledger: Path, *death: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), str(ledger), *death]
    return subprocess.run(command, env=environment(settings), capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("kind", ["Forked", "Promoted"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_promotion_that_is_killed_is_whole_or_nothing(
    journal: Settings, tmp_path: Path, kind: str, when: str
) -> None:
    """kill -9 around an entry; the program that is started again goes on, and no body of either process runs twice."""
    settings, ledger = replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.3), tmp_path / "ledger.txt"
    died = run_story(settings, ledger, kind, when)
    assert died.returncode == -9, died.stderr
    told = ledger.read_text().split()
    async with Node.connect(settings) as node:
        parent, fork = [(await node.recover(one, missing_ok=True)).state for one in "pq"]
        is_written = when == "after"
        if kind == "Forked":
            assert (fork.seq, fork.lineage.parent_id) == ((1, "p") if is_written else (0, None))
        else:
            assert fork.finished
            assert parent.context == {"choice": "reject" if is_written else "pay"}
    again = run_story(settings, ledger)
    assert (again.returncode, again.stdout) == (0, "rejected\n"), again.stderr
    whole = ["looked", "reserved", "pay", "paid", "wrote", "rejected"]
    assert (told, ledger.read_text().split()) == (whole[:4] if kind == "Forked" else whole, whole)
    async with Node.connect(settings) as node:
        [entry] = [one.entry async for one in node.entries("p", kinds=["promoted"])]
        assert isinstance(entry.body, b.Promoted)
        assert (entry.actor, entry.body.fork_id, entry.body.reason) == ("ann", "q", "no receipt")
        merged = (await node.recover("p", at_seq=entry.seq)).state.calls
        assert (merged["pay:1"].status, merged["write:1"].status) == ("succeeded", "succeeded")  # facts, both of them
        assert (await node.recover("p")).state.finished
    check(settings, "p")
