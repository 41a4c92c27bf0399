"""The command line in this process: its exit code, and what it wrote where."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from seekpoint.console.cli import main
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
