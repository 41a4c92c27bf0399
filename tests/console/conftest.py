"""The command line in this process: its exit code, and what it wrote where."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from console_on_memory import AGENTS, OnMemory
from owners import Owner
from raw_kafka import RawKafka
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.console.cli import main
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
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
        monkeypatch.setattr("seekpoint.console.command.CommandTarget", lambda **_: OnMemory(log))
        monkeypatch.setattr(Node, "connect", lambda settings: Node.in_memory(log, node_id=settings.node_id))

    return move


@pytest.fixture
def write_module(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """``write_module("shop", source)``: into the folder, not hidden by one of that name that was imported before."""

    def write(name: str, source: str) -> None:
        Path(f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


@pytest.fixture
def seekpoint(
    shell: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None], write_module: Callable[[str, str], None]
) -> Shell:
    """``seekpoint("steps", "p")`` on the log, with an agent's module in the folder."""
    move_to(log)
    write_module("touching", AGENTS)
    return shell


@pytest.fixture(scope="session")
def cases(cluster: LocalCluster) -> Settings:
    """A journal with a process of each sort: worked on, finished, failed, degraded, left behind; and poison.

    Tests only look at it.
    """
    settings = cluster.settings(
        journal=f"cases-{uuid4().hex[:8]}", partitions=2, owner_timeout_s=2.0, heartbeat_interval_s=0.3
    )
    create_topics_sync(settings)
    asyncio.run(_work(settings))
    raw = RawKafka(settings)
    gap = Owner(raw.append, settings.partitions, "case-gap")
    gap.claim("node-gone")
    gap.update("a", "1")
    gap.seq += 2
    gap.update("a", "2")
    gap.raw(b"junk\x1b[31m")
    left = Owner(raw.append, settings.partitions, "case-left")
    left.claim("node-gone")
    left.update("a", "1")
    return settings


async def _work(settings: Settings) -> None:
    async with Node.connect(settings) as node:
        async with node.open("case-1") as process:
            await process.transition("starting")
            await process.update("status", "checking")
            await process.say("user", "Where is my order?")
            await process.record("billing", {"usd": 0.02})
        async with node.open("case-done") as process:
            await process.finish({"refund": 12})
        with contextlib.suppress(RuntimeError):
            async with node.open("case-err") as process:
                raise RuntimeError("boom")
        await node.signal("case-1", "approve", {"by": "ann"}, actor="ann")


@pytest.fixture
def on_cases(cases: Settings, point_at: Callable[[Settings], None]) -> Settings:
    """The environment points at the cases."""
    point_at(cases)
    return cases
