"""The fixtures that come with the package: found by pytest without a line of configuration."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pages import ROOT, blocks
from seekpoint.compose import LocalCluster
from seekpoint.producers import Node, Process, SyncNode, SyncProcess, VirtualClock, agent
from seekpoint.schemas import Settings


@agent("patient")
async def patient(process: Process, input: Any) -> Any:
    """Waits a week for a word."""
    answer = await process.gate("word", timeout=timedelta(days=7))
    return [answer.timed_out, input]


async def test_the_fixture_node_skips_sleeps(seekpoint_node: Node, seekpoint_clock: VirtualClock) -> None:
    """A week's time-out takes no time, by the clock that the test holds."""
    before, began = seekpoint_clock.now_us(), time.monotonic()
    assert await seekpoint_node.run(patient, "p", 7) == [True, 7]
    assert seekpoint_clock.now_us() - before >= timedelta(days=7) / timedelta(microseconds=1)
    assert time.monotonic() - began < 60


def test_the_fixture_sync_node_works_in_plain_tests(seekpoint_sync_node: SyncNode) -> None:
    """The same journal and clock, without a loop of the test's own."""
    assert seekpoint_sync_node.run(patient, "p", 7) == [True, 7]
    with seekpoint_sync_node.open("q") as process:
        assert isinstance(process, SyncProcess)


def test_the_plugin_loads_nothing_before_a_test_uses_a_fixture() -> None:
    """A plugin is loaded by every run of pytest, of projects too that have nothing to do with agents."""
    shown = "[name for name in sys.modules if name.startswith('seekpoint.')]"
    code = f"import sys, seekpoint.console.pytest_plugin; print({shown})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240).stdout
    assert set(eval(out)) <= {"seekpoint.console", "seekpoint.console.pytest_plugin"}


def test_a_project_of_a_user_finds_the_fixtures(tmp_path: Path) -> None:
    """In a run of its own, with nothing but an installed package."""
    (tmp_path / "test_mine.py").write_text(
        "def test_mine(seekpoint_sync_node):\n"
        "    with seekpoint_sync_node.open('p') as process:\n"
        "        assert process.step('add', sum, [1, 2]) == 3\n"
    )
    assert "1 passed" in pytest_in(tmp_path, "-p", "no:asyncio", "-W", "error")


def test_the_tests_on_the_page_pass_without_any_configuration(tmp_path: Path) -> None:
    """A user copies them into an empty folder; pytest-asyncio then runs in its strict mode."""
    [shown] = [block for block in blocks(ROOT / "docs" / "testing.md", "python") if "seekpoint_node" in block.text]
    (tmp_path / "test_shown.py").write_text(shown.text)
    assert "2 passed" in pytest_in(tmp_path)


def pytest_in(folder: Path, *options: str) -> str:
    """Run pytest in ``folder``, which must be green; return what it prints."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.cluster
def test_the_fixture_journal_creates_a_journal_on_kafka(cluster: LocalCluster, request: pytest.FixtureRequest) -> None:
    """Settings of its own, whose topics exist. The session's cluster stands in for a second one."""
    from seekpoint.console import pytest_plugin

    journal = pytest_plugin.seekpoint_journal.__wrapped__  # type: ignore[attr-defined]
    settings: Settings = journal(cluster)
    with SyncNode.connect(settings) as node:
        with node.open("p") as process:
            assert process.step("add", sum, [1, 2]) == 3
        assert node.recover("p").state.owner is None
