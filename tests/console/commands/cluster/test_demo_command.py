"""``seekpoint demo``: the command, which starts a cluster of its own and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seekpoint.compose import LocalCluster

FIELDS = {
    "entries", "processes", "killed_at", "recoveries", "acknowledged_lost", "fenced", "duplicate_calls",
    "hash_mismatches",
}  # fmt: skip
RECOVERY_FIELDS = {"tier", "seek_point", "entries_scanned", "entries_applied", "duration_s"}

pytestmark = pytest.mark.own_cluster


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
        working = _until(lambda: sum("demo_worker" in left for left in _leftovers(tmp_path)) == 4)
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
        working = _until(lambda: sum("demo_worker" in left for left in _leftovers(tmp_path)) == 4)
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
