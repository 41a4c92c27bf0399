"""``seekpoint worker``, ``submit``, ``result``, ``suspend`` and ``resume``, on a real Kafka where they need one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_programs import environment
from seekpoint.console.services.daemons.worker_service import agents_in
from seekpoint.schemas.config.settings import Settings
from shells import Shell

SHOP = """
from seekpoint.producers import agent


@agent("refund")
async def refund(process, order):
    return await process.step("look up", len, order)


@agent("ask")
async def ask(process, order):
    return (await process.gate("approve", prompt=order)).outcome


@agent("fails")
async def fails(process, order):
    raise ValueError("no money")
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """The modules of a test are gone with it."""
    yield
    for module in ("shop", "empty"):
        sys.modules.pop(module, None)


def test_agents_are_named_by_module_or_one_by_one(write_module: Callable[[str, str], None]) -> None:
    """All agents of a module, or one of them; the same agent twice is one."""
    write_module("shop", SHOP)
    assert sorted(one.name for one in agents_in(["shop"])) == ["ask", "fails", "refund"]
    assert [one.name for one in agents_in(["shop:refund", "shop:refund"])] == ["refund"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["worker", "nowhere"], "nowhere cannot be imported"),
        (["worker", "empty"], "empty has no agent"),
        (["worker", "shop:SHOP"], "has no attribute 'SHOP'"),
        (["worker", "empty:number"], "is a int, not an agent"),
        (["worker", "shop", "--concurrency", "refund"], "is not AGENT=N"),
        (["worker", "shop", "--concurrency", "refund=0"], "is not AGENT=N"),
        (["worker", "shop", "--concurrency", "refudn=1"], "no agent here is called 'refudn': did you mean refund?"),
        (["submit", "p", "--agent", "a", "--input", "{"], "is not JSON"),
        (["redrive"], "give process ids"),
        (["redrive", "p", "--failed"], "give process ids"),
        (["submit", "p", "--agent", "a", "--delay", "1", "--start-at", "1790000000"], "not both"),
        (["submit", "p", "--agent", "a", "--start-at", "soon"], "is not a time"),
        (["submit", "p", "--agent", "a", "--start-at", "1e300"], "1e300 is out of range"),
        (["submit", "p", "--agent", "a", "--timeout", "5"], "give it with --wait"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    shell: Shell, write_module: Callable[[str, str], None], arguments: list[str], told: str
) -> None:
    """Before anything is connected; with the code of a wrong usage."""
    write_module("shop", SHOP)
    write_module("empty", "number = 1\n")
    answer = shell(*arguments)
    assert answer.code == 2
    assert told in answer.err


@contextmanager
def working(settings: Settings, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A worker program that has joined."""
    command = [sys.executable, "-m", "seekpoint.console", "worker", *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment(settings), stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            line = next(line for line in program.stderr if "Ctrl-C stops it" in line or "Error" in line)
            assert "runs ask, fails, refund" in line, line
            yield program
        finally:
            program.kill()


@pytest.mark.cluster
def test_a_worker_runs_what_is_submitted_until_it_is_told_to_stop(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], tmp_path: Path
) -> None:
    """Result, failure, hold and cancellation; SIGTERM drains, and what waits stays for the next worker."""
    point_at(journal)
    (tmp_path / "shop.py").write_text(SHOP)
    with working(journal, tmp_path, "shop", "--grace", "0.2") as program:
        sent = shell("submit", "case-1", "--agent", "refund", "--input", '"four"', "--actor", "ann", "--json")
        assert (sent.code, sent.json) == (0, {"process_id": "case-1", "agent": "refund"}), sent.err
        assert shell("result", "case-1", "--timeout", "30").json == 4
        again = shell("submit", "case-1", "--agent", "refund", "--input", '"four"', "--wait", "--json")
        assert again.json == {"process_id": "case-1", "agent": "refund", "result": 4}
        other = shell("submit", "case-1", "--agent", "refund", "--input", '"other"')
        assert (other.code, "another input" in other.err) == (4, True)

        assert shell("submit", "case-2", "--agent", "fails", "--wait").code == 1
        listed = shell("redrive", "--failed", "--agent", "fails", "--dry-run", "--json").json
        assert ([one["process_id"] for one in listed["failed"]], listed["redriven"]) == (["case-2"], [])
        assert shell("redrive", "case-2", "--reason", "again").code == 0
        assert shell("result", "case-2", "--timeout", "30").code == 1
        assert shell("redrive", "case-1").code == 4
        shell("submit", "case-3", "--agent", "ask", "--input", "1")
        assert shell("result", "case-3", "--timeout", "1").code == 3
        assert shell("suspend", "case-3", "--reason", "look at it").code == 0
        assert "already suspended" in shell("suspend", "case-3").err
        assert shell("approve", "case-3", "approve").code == 0
        assert shell("result", "case-3", "--timeout", "1").code == 3
        assert shell("resume", "case-3").code == 0
        assert shell("result", "case-3", "--timeout", "30").json == "approved"
        assert shell("resume", "case-3").code == 4

        (one,) = shell("workers", "--json").json["workers"]
        assert (one["agents"], one["partitions"], one["state"]) == (["ask", "fails", "refund"], [0, 1, 2, 3], "working")
        assert "0-3" in shell("workers").out

        shell("submit", "case-4", "--agent", "ask", "--input", "1")
        deadline = time.monotonic() + 30
        while "approve:1" not in shell("state", "case-4", "--json").out:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0
        assert program.stderr is not None
        assert "stopped; 2 runs finished, 2 failed" in program.stderr.read()
    with working(journal, tmp_path, "shop"):
        assert shell("approve", "case-4", "approve").code == 0
        assert shell("result", "case-4", "--timeout", "30").json == "approved"
    assert json.loads(shell("state", "case-4", "--json").out)["finished"] is True
