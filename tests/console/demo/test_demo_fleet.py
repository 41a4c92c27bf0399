"""The demo itself: a fleet on a real Kafka, a real SIGKILL, a real take-over, and nothing left behind."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from seekpoint.console.demo.cases import support_cases
from seekpoint.console.demo.conductor import DemoOptions, run
from seekpoint.console.demo.demo_story import DemoStory
from seekpoint.console.services.facts.redis_facts import forget_everything
from seekpoint.schemas.config.settings import Settings

REAL_RUNS = Path(__file__).resolve().parents[4] / "shared" / "data" / "agent-runs.jsonl.gz"

pytestmark = pytest.mark.cluster


@pytest.fixture
def hasty(settings: Settings) -> Settings:
    """A journal whose dead owners are given up soon."""
    return replace(settings, owner_timeout_s=3.0, heartbeat_interval_s=0.5)


def test_a_killed_worker_loses_nothing(hasty: Settings) -> None:
    """Nothing acknowledged is lost, no finished call is made again, every state equals a refold."""
    told = io.StringIO()
    options = DemoOptions(cases=9, nodes=3, settings=hasty, think_s=(0.05, 0.15))
    outcome = run(options, DemoStory(told))
    assert outcome.ok, told.getvalue()
    assert outcome.kill is not None
    assert outcome.kill.held
    taken = {each.case for each in outcome.take_overs}
    assert set(outcome.kill.held) <= taken
    assert all(each.from_node == outcome.kill.node != each.node for each in outcome.take_overs)
    assert outcome.verdict.processes == 9
    assert outcome.verdict.model_calls == outcome.verdict.in_doubt_calls + sum(c.model_calls for c in support_cases(9))
    story = told.getvalue()
    assert f"{outcome.kill.node} is killed" in story
    assert "All is well" in story
    assert "\x1b" not in story
    after = outcome.aftermath
    assert after is not None
    assert (after.flush.cases, after.flush.tiers, after.flush.mismatches) == (9, {"checkpoint": 9}, 0)
    assert after.flush.keys > 0
    view, checkpoint, scan = (row.report for row in after.tiers)
    assert [row.tier for row in after.tiers] == ["view", "checkpoint", "scan"]
    assert (view["entries_applied"], checkpoint["entries_applied"], scan["entries_applied"]) == (10, 10, 20_010)
    assert max(view["entries_scanned"], checkpoint["entries_scanned"]) < 100 < 20_000 < scan["entries_scanned"]
    assert after.is_one_state
    assert "Recovery without Redis" in story


def test_a_demo_deletes_only_its_own_keys_in_a_given_redis(hasty: Settings) -> None:
    """There may be anything in it: only the journal's own keys are deleted."""
    with redis.Redis.from_url(hasty.redis_url or "") as client:
        client.set("somebody-elses", "1")
        client.set("seekpoint:{another:0}:meta", "1")
        client.hset(f"seekpoint:{{{hasty.journal}:0}}:meta", "applied", "1")
        client.hset(f"seekpoint:{hasty.journal}:nodes", "node-1", "1")
        assert forget_everything(hasty, all_of_it=False) == 2
        assert client.delete("somebody-elses", "seekpoint:{another:0}:meta") == 2


def test_without_redis_the_demo_runs_the_workers_only(hasty: Settings) -> None:
    """No projector, no tiers: the fleet alone."""
    outcome = run(
        DemoOptions(cases=4, nodes=2, settings=replace(hasty, redis_url=None)), DemoStory(told := io.StringIO())
    )
    assert (outcome.ok, outcome.aftermath, outcome.to_dict()["tiers"]) == (True, None, []), told.getvalue()


def test_a_demo_without_a_kill_fails(hasty: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo without a kill promises something it did not show: it fails, though all work was done."""
    monkeypatch.setattr("seekpoint.console.demo.watch.FleetWatch.victim", lambda *_: None)
    outcome = run(DemoOptions(cases=4, nodes=2, settings=hasty, long_entries=200), DemoStory(io.StringIO()))
    assert not outcome.ok
    assert [complaint.partition(":")[0] for complaint in outcome.verdict.complaints] == ["no worker was killed"]
    assert outcome.to_dict()["killed_at"] is None


def test_the_demo_runs_recorded_runs(hasty: Settings, tmp_path: Path) -> None:
    """Each run is a process, each message of the assistant a model call."""
    messages = [{"role": "user" if at % 2 == 0 else "assistant", "content": f"message {at}"} for at in range(20)]
    runs = [{"run_id": f"run {number}", "task_id": number, "messages": messages} for number in range(6)]
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, runs)).encode()))
    told = io.StringIO()
    outcome = run(
        DemoOptions(runs=path, nodes=3, settings=hasty, long_entries=200, think_s=(0.03, 0.06)), DemoStory(told)
    )
    assert outcome.ok, told.getvalue()
    assert outcome.verdict.processes == 6
    assert outcome.verdict.model_calls - outcome.verdict.in_doubt_calls == 60


@pytest.mark.skipif(not REAL_RUNS.exists(), reason="the recorded agent runs are not beside this checkout")
def test_the_demo_runs_150_real_runs(hasty: Settings) -> None:
    """150 real conversations, with tool calls, system prompts and messages without text."""
    told = io.StringIO()
    outcome = run(
        DemoOptions(runs=REAL_RUNS, settings=hasty, long_entries=200, think_s=(0.002, 0.006)), DemoStory(told)
    )
    assert outcome.ok, told.getvalue()
    assert outcome.verdict.processes == 150


def test_a_failed_worker_is_reported_with_its_error(hasty: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' work does not hide it: the demo fails and says which worker said what."""
    monkeypatch.setattr("seekpoint.console.demo.demo_worker.FleetConfig.save", _damaged_config)
    outcome = run(DemoOptions(cases=4, nodes=2, settings=hasty, long_entries=200), DemoStory(told := io.StringIO()))
    assert not outcome.ok
    assert any(
        complaint.startswith("worker-1 failed: exit code 1: TypeError") for complaint in outcome.verdict.complaints
    )
    assert "The demo failed" in told.getvalue()


def _damaged_config(config: object, folder: Path) -> None:
    (folder / "fleet.json").write_text('{"nobody": "knows this"}')
