"""The command line in this process: its exit code, and what it wrote where."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console_on_memory import AGENTS, OnMemory
from seekpoint.console.cli import main
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.settings import Settings
from shells import Ran, Shell


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """``shell("ps", "--json")``, in an empty folder, without any setting of the machine's."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SEEKPOINT_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def point_at(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``point_at(settings)``: the environment says what these settings say."""

    def point(settings: Settings) -> None:
        monkeypatch.setenv("SEEKPOINT_JOURNAL", settings.journal)
        monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", settings.bootstrap_servers)
        monkeypatch.setenv("SEEKPOINT_REDIS_URL", settings.redis_url or "none")
        monkeypatch.setenv("SEEKPOINT_PARTITIONS", str(settings.partitions))
        monkeypatch.setenv("SEEKPOINT_OWNER_TIMEOUT_S", str(settings.owner_timeout_s))
        monkeypatch.setenv("SEEKPOINT_HEARTBEAT_INTERVAL_S", str(settings.heartbeat_interval_s))

    return point


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


@pytest.fixture
def move_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[MemoryLog], None]:
    """``move_to(log)``: from here on the commands work on it."""

    def move(log: MemoryLog) -> None:
        monkeypatch.setattr("seekpoint.console.commands.Target", lambda **_: OnMemory(log))
        monkeypatch.setattr(Node, "connect", lambda settings: Node.in_memory(log, node_id=settings.node_id))

    return move


@pytest.fixture
def seekpoint(
    shell: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """``seekpoint("steps", "p")`` on the log, with an agent's module in the folder."""
    move_to(log)
    Path("touching.py").write_text(AGENTS)
    monkeypatch.delitem(sys.modules, "touching", raising=False)
    return shell
