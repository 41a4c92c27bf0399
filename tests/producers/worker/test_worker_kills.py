"""Workers that are killed: every run ends, and nothing is done twice that was done. Kafka is real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from killed_worker import kill_one
from ledger_fleet import conduct_fleet
from seekpoint.schemas import Settings

pytestmark = pytest.mark.cluster


async def test_runs_of_killed_workers_end_on_the_others(journal: Settings, tmp_path: Path) -> None:
    """Completed calls 0 more times, in doubt at most once more a takeover, at most once never twice; all runs end."""
    settings = replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.3)
    judged = await conduct_fleet(settings, tmp_path, runs=60, kills=4, seed=20261123, deadline_s=90)
    assert judged.faults == [], (tmp_path / "agents.log").read_text()[-3000:]
    assert (judged.finished, judged.kills) == (60, 4)
    assert judged.takeovers > 4, "nobody was disturbed at work: the test proved nothing"


async def test_others_on_the_host_go_on_with_the_runs_of_a_killed_worker(journal: Settings, tmp_path: Path) -> None:
    """They see that the program ended, long before its heartbeat is too old (15 s), and every run ends once."""
    judged, resumed = await kill_one(journal, tmp_path, runs=30, call_takes_s=1.0, seed=20261123, deadline_s=60)
    assert judged.faults == [], (tmp_path / "agents.log").read_text()[-3000:]
    assert judged.finished == 30
    assert 0 < resumed.orphans == judged.takeovers < 30
    assert resumed.last_s < 10
