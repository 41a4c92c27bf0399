"""The service of reactors on a real Kafka: members are real processes and are killed at the worst moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from agent_programs import environment
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.consumers.kafka.faust_delivery import FaustDelivery
from seekpoint.producers.sync import SyncNode
from seekpoint.schemas.config.settings import Settings

pytestmark = pytest.mark.cluster

MODULE = """
import os
from seekpoint.consumers import reactor

@reactor("count", kinds=["context_updated"], where='body.key != "quiet"', pause_s=0.1)
async def count(reaction):
    with open(os.environ["SEEN"], "a") as seen:
        print(reaction.id, reaction.process_id, reaction.state.context["n"], file=seen)
    if os.environ.get("DIE_AT") == str(reaction.state.context["n"]):
        os.kill(os.getpid(), 9)
"""
PROGRAM = "import sys; from seekpoint.console.cli import main; sys.exit(main())"
_PATIENCE_S = 60.0


@pytest.fixture
def place(cluster: LocalCluster) -> Settings:
    name = f"reacting-{uuid4().hex[:8]}"
    settings = cluster.settings(
        journal=name, partitions=2, owner_timeout_s=6.0, heartbeat_interval_s=1.0, start_timeout_s=_PATIENCE_S
    )
    create_topics_sync(settings)
    return settings


@contextmanager
def member(settings: Settings, folder: Path, *options: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own; what it saw is in ``folder/seen``."""
    (folder / "shop_reactors.py").write_text(MODULE)
    environ = environment(settings) | {"SEEN": str(folder / "seen"), **more}
    command = [sys.executable, "-c", PROGRAM, "serve", "reactors", "shop_reactors", *options]
    with (folder / "log").open("a") as log:
        popen = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log, text=True)
    try:
        yield popen
    finally:
        if popen.poll() is None:
            popen.terminate()
            popen.wait(30)


def seen(folder: Path) -> list[tuple[str, str, int]]:
    path = folder / "seen"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(identity, process, int(number)) for identity, process, number in (line.rsplit(" ", 2) for line in lines)]


def wait_for(folder: Path, count: int) -> None:
    """Wait until this many different reactions were seen."""
    deadline = time.monotonic() + _PATIENCE_S
    while len({identity for identity, *_ in seen(folder)}) < count:
        assert time.monotonic() < deadline, (folder / "log").read_text()[-3_000:]
        time.sleep(0.05)


def wait_until_joined(folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while "Ctrl-C stops it" not in (folder / "log").read_text():
        assert time.monotonic() < deadline, (folder / "log").read_text()[-3_000:]
        time.sleep(0.05)


def write(settings: Settings, numbers: range, process_id: str = "case-1") -> None:
    with SyncNode.connect(settings) as node, node.open(process_id) as process:
        for number in numbers:
            process.update("n", number)


def test_a_killed_member_loses_no_entry(place: Settings, tmp_path: Path) -> None:
    """It dies right after its work and before its commit: the entry comes again, under the same id, and no other."""
    with member(place, tmp_path, DIE_AT="3") as first:
        wait_until_joined(tmp_path)
        write(place, range(6))
        assert first.wait(_PATIENCE_S) == -signal.SIGKILL
    assert [number for *_, number in seen(tmp_path)] == [0, 1, 2, 3]
    with member(place, tmp_path):
        wait_for(tmp_path, 6)
    times = Counter(number for *_, number in seen(tmp_path))
    assert [times[number] for number in range(6)] == [1, 1, 1, 2, 1, 1]
    assert len({identity for identity, *_ in seen(tmp_path)}) == 6


def test_a_new_group_begins_now_and_an_old_one_where_it_stopped(place: Settings, tmp_path: Path) -> None:
    """What was written while no member ran comes later; what was written before the first one does not."""
    write(place, range(3))
    with member(place, tmp_path):
        wait_until_joined(tmp_path)
        write(place, range(10, 12))
        wait_for(tmp_path, 2)
    write(place, range(20, 22))
    with member(place, tmp_path):
        wait_for(tmp_path, 4)
    assert [number for *_, number in seen(tmp_path)] == [10, 11, 20, 21]
    history = tmp_path / "history"
    history.mkdir()
    with member(place, history, "--group", "history", "--from-beginning"):
        wait_for(history, 7)
    assert [number for *_, number in seen(history)] == [0, 1, 2, 10, 11, 20, 21]


def test_without_faust_nobody_reacts(place: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries come through Faust and no other way."""
    assert FaustDelivery._make_app.__module__ == "seekpoint.consumers.kafka.faust_delivery"
    (tmp_path / "faust.py").write_text("raise ImportError('there is no Faust')\n")
    with member(place, tmp_path) as running:
        assert running.wait(_PATIENCE_S) != 0
    assert "there is no Faust" in (tmp_path / "log").read_text()
    assert os.path.exists(tmp_path / "seen") is False
