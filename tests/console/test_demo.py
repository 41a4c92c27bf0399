"""The demo itself: a fleet on a real Kafka, a real SIGKILL, a real take-over, and nothing left behind."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from seekpoint.compose import LocalCluster
from seekpoint.console.demo import Options, Story, run
from seekpoint.console.demo.cases import support_cases
from seekpoint.console.redis_ import forget_everything
from seekpoint.schemas.settings import Settings

REAL_RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-runs.jsonl.gz"
FIELDS = {
    "entries", "processes", "killed_at", "recoveries", "acknowledged_lost", "fenced", "duplicate_calls",
    "hash_mismatches",
}  # fmt: skip
RECOVERY_FIELDS = {"tier", "seek_point", "entries_scanned", "entries_applied", "duration_s"}

pytestmark = pytest.mark.cluster


@pytest.fixture
def hasty(settings: Settings) -> Settings:
    """A journal whose dead owners are given up soon."""
    return replace(settings, owner_timeout_s=3.0, heartbeat_interval_s=0.5)


def test_a_killed_node_loses_nothing(hasty: Settings) -> None:
    """Nothing acknowledged is lost, no finished call is made again, every state equals a refold."""
    told = io.StringIO()
    options = Options(cases=9, nodes=3, settings=hasty, think_s=(0.05, 0.15))
    outcome = run(options, Story(told))
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
    assert "Redis lost everything" in story


def test_a_demo_on_ones_own_redis_leaves_alone_what_is_not_its_own(hasty: Settings) -> None:
    """There may be anything in it: only the journal's own keys are deleted."""
    with redis.Redis.from_url(hasty.redis_url or "") as client:
        client.set("somebody-elses", "1")
        client.set("seekpoint:{another:0}:meta", "1")
        client.hset(f"seekpoint:{{{hasty.journal}:0}}:meta", "applied", "1")
        client.hset(f"seekpoint:{hasty.journal}:nodes", "node-1", "1")
        assert forget_everything(hasty, all_of_it=False) == 2
        assert client.delete("somebody-elses", "seekpoint:{another:0}:meta") == 2


def test_without_a_redis_the_demo_shows_what_it_can(hasty: Settings) -> None:
    """No projector, no tiers: the fleet alone."""
    outcome = run(Options(cases=4, nodes=2, settings=replace(hasty, redis_url=None)), Story(told := io.StringIO()))
    assert (outcome.ok, outcome.aftermath, outcome.to_dict()["tiers"]) == (True, None, []), told.getvalue()


def test_a_fleet_where_nobody_dies_shows_nothing(hasty: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo without a kill promises something it did not show: it fails, though all work was done."""
    monkeypatch.setattr("seekpoint.console.demo.watch.Watch.victim", lambda *_: None)
    outcome = run(Options(cases=4, nodes=2, settings=hasty, long_entries=200), Story(io.StringIO()))
    assert not outcome.ok
    assert [complaint.partition(":")[0] for complaint in outcome.verdict.complaints] == ["nobody could be killed"]
    assert outcome.to_dict()["killed_at"] is None


def test_recorded_runs_take_the_same_path(hasty: Settings, tmp_path: Path) -> None:
    """Each run is a process, each message of the assistant a model call."""
    messages = [{"role": "user" if at % 2 == 0 else "assistant", "content": f"message {at}"} for at in range(20)]
    runs = [{"run_id": f"run {number}", "task_id": number, "messages": messages} for number in range(6)]
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, runs)).encode()))
    told = io.StringIO()
    outcome = run(Options(runs=path, nodes=3, settings=hasty, long_entries=200, think_s=(0.03, 0.06)), Story(told))
    assert outcome.ok, told.getvalue()
    assert outcome.verdict.processes == 6
    assert outcome.verdict.model_calls - outcome.verdict.in_doubt_calls == 60


@pytest.mark.skipif(not REAL_RUNS.exists(), reason="the recorded agent runs are not beside this checkout")
def test_real_runs_take_the_same_path(hasty: Settings) -> None:
    """150 real conversations, with tool calls, system prompts and messages without text."""
    told = io.StringIO()
    outcome = run(Options(runs=REAL_RUNS, settings=hasty, long_entries=200, think_s=(0.002, 0.006)), Story(told))
    assert outcome.ok, told.getvalue()
    assert outcome.verdict.processes == 150


# --- the command, on a cluster of its own -----------------------------------------------------------------------------
def _command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command in a session of its own, all its temporary files below ``folder``."""
    return subprocess.Popen(
        [sys.executable, "-m", "seekpoint.console", "demo", *arguments],
        cwd=folder, env={**os.environ, "TMPDIR": str(folder)}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _leftovers(folder: Path) -> list[str]:
    """Files below ``folder``, and processes that were told of it."""
    found = [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def _until(done: Callable[[], bool], seconds: float = 120.0) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_the_command_prints_one_json_line_and_leaves_nothing(tmp_path: Path) -> None:
    """The story goes to stderr; the fields are there; no process and no folder stays."""
    process = _command(tmp_path, "--json")
    stdout, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr
    [line] = stdout.splitlines()
    outcome = json.loads(line)
    assert outcome.keys() >= FIELDS
    assert outcome["recoveries"]
    assert all(recovery.keys() >= RECOVERY_FIELDS for recovery in outcome["recoveries"])
    assert not any(
        outcome[name] for name in ("acknowledged_lost", "duplicate_calls", "hash_mismatches", "complaints")
    ), stderr
    assert [row["tier"] for row in outcome["tiers"]] == ["view", "checkpoint", "scan"]
    assert len({row["hash"] for row in outcome["tiers"]}) == 1
    assert outcome["flush"]["tiers"] == {"checkpoint": outcome["processes"]}
    assert "is killed" in stderr
    assert _leftovers(tmp_path) == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_a_demo_that_is_ended_leaves_nothing(tmp_path: Path, ending: signal.Signals) -> None:
    """Ctrl-C while the fleet works, or worse: brokers, nodes and folders go."""
    process = _command(tmp_path)
    try:
        working = _until(lambda: sum("demo.worker" in left for left in _leftovers(tmp_path)) == 4)
        process.send_signal(ending)
        _, stderr = process.communicate(timeout=240)
    finally:
        process.kill()
    assert working, stderr
    assert process.returncode == (130 if ending is signal.SIGINT else -ending)
    assert _until(lambda: _leftovers(tmp_path) == []), _leftovers(tmp_path)


def test_an_interrupted_demo_keeps_no_cluster_running(tmp_path: Path) -> None:
    """``--keep`` is for a demo that came to its end: Ctrl-C ends the cluster it started, and leaves its data."""
    process = _command(tmp_path, "--keep")
    try:
        working = _until(lambda: sum("demo.worker" in left for left in _leftovers(tmp_path)) == 4)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=240)
    finally:
        process.kill()
    assert working, stderr
    assert process.returncode == 130
    kept = str(tmp_path / ".seekpoint")
    assert _until(lambda: _leftovers(tmp_path) == [kept]), _leftovers(tmp_path)


def test_a_kept_cluster_runs_on_until_it_is_stopped(tmp_path: Path) -> None:
    """``--keep``: the commands that the story ends with work, and its data is where it says."""
    process = _command(tmp_path, "--keep")
    try:
        stdout, stderr = process.communicate(timeout=240)
        assert process.returncode == 0, stderr
        looks = [line.strip() for line in stdout.splitlines() if "--journal demo-" in line]
        assert len(looks) == 8
        for look in looks:
            arguments = look.partition(" ")[2].split()
            shown = subprocess.run(
                [sys.executable, "-m", "seekpoint.console", *arguments],
                cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert (shown.returncode, bool(shown.stdout)) == (0, True), f"{look}: {shown.stderr}"
    finally:
        LocalCluster.attach(tmp_path / ".seekpoint").stop()
    assert [path.name for path in tmp_path.iterdir()] == [".seekpoint"]


def test_a_node_that_breaks_is_named_with_what_it_said(hasty: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' work does not hide it: the demo fails and says which node said what."""
    monkeypatch.setattr("seekpoint.console.demo.worker.Orders.save", _damaged_orders)
    outcome = run(Options(cases=4, nodes=2, settings=hasty, long_entries=200), Story(told := io.StringIO()))
    assert not outcome.ok
    assert any(complaint.startswith("node-1 broke: exit code 1: TypeError") for complaint in outcome.verdict.complaints)
    assert "This is not what the demo promises" in told.getvalue()


def _damaged_orders(orders: object, folder: Path) -> None:
    (folder / "orders.json").write_text('{"nobody": "knows this"}')
