"""A node on the same host sees that another node's process died, and claims it only where that is certain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from seekpoint.consumers.heartbeats import host
from seekpoint.consumers.heartbeats.host import HostProcess, has_died, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


@pytest.fixture(autouse=True)
def not_looked_up_before() -> Iterator[None]:
    """Forget this process, which is looked up once."""
    host._process.cache_clear()
    yield
    host._process.cache_clear()


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as popen:
        yield popen
        popen.kill()


def named(popen: subprocess.Popen[bytes]) -> HostProcess:
    """Return the process as its own heartbeat names it."""
    mine, seen = this_process(), host._seen(popen.pid)
    assert mine is not None
    assert seen is not None
    return replace(mine, pid=popen.pid, started=seen[1])


def state_of(popen: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{popen.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_that_was_killed_has_died(other: subprocess.Popen[bytes]) -> None:
    """A zombie counts as dead, and so does a process that is gone. A running or stopped process lives."""
    process = named(other)
    assert not has_died(process)
    other.send_signal(signal.SIGSTOP)
    while state_of(other) != "T":
        pass
    assert not has_died(process)
    other.kill()
    while state_of(other) != "Z":
        pass
    assert has_died(process)
    other.wait()
    assert has_died(process)


@pytest.mark.parametrize("pid", [1 << 31, 1 << 70])
def test_an_impossible_process_id_is_not_judged(pid: int) -> None:
    """A heartbeat may contain any number. An impossible id must not stop a node from opening a process."""
    mine = this_process()
    assert mine is not None
    assert not has_died(replace(mine, pid=pid))


def test_an_id_that_is_used_again_is_another_process(other: subprocess.Popen[bytes]) -> None:
    """The start time differs."""
    process = named(other)
    assert has_died(replace(process, started=process.started - 1))


def test_the_calling_process_lives() -> None:
    """The calling process lives, and a forked process names itself."""
    mine = this_process()
    assert mine is not None
    assert mine.pid == os.getpid()
    assert not has_died(mine)
    forked = "import os; t(); print(os.wait() if os.fork() else t().pid == os.getpid() != os.getppid(), flush=True)"
    code = f"from seekpoint.consumers.heartbeats.host import this_process as t; {forked}"
    assert "True" in subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("elsewhere", [{"host": "other boot"}, {"namespaces": "pid:[1] time:[1]"}])
def test_a_process_of_another_host_or_namespace_is_not_judged(
    other: subprocess.Popen[bytes], elsewhere: dict[str, Any]
) -> None:
    """Its id means nothing on this host."""
    process = replace(named(other), **elsewhere)
    other.kill()
    other.wait()
    assert not has_died(process)


def test_without_proc_no_process_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc, or with that of another namespace, a heartbeat names no process, and no process is judged."""
    mine = this_process()
    assert mine is not None
    host._process.cache_clear()
    monkeypatch.setattr(host, "_here", lambda pid: None)
    assert this_process() is None
    assert not has_died(replace(mine, pid=2**22 + 1))
    assert not has_died(None)


def test_a_process_that_is_hidden_has_not_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc may be mounted so that a user sees only the own processes."""
    mine = this_process()
    monkeypatch.setattr(host, "_seen", lambda pid: None)
    assert not has_died(mine)


@pytest.mark.parametrize("failure", [OSError(24, "Too many open files"), PermissionError(13, "denied")])
def test_a_process_that_cannot_look_itself_up_says_nothing(monkeypatch: pytest.MonkeyPatch, failure: OSError) -> None:
    """Its heartbeat names no process, and it judges no other."""
    mine = this_process()

    def fails(path: str, mode: str) -> NoReturn:
        raise failure

    monkeypatch.setattr(host, "open", fails, raising=False)
    assert this_process() == mine  # it was looked up before
    host._process.cache_clear()
    assert this_process() is None
    assert not has_died(mine)
    monkeypatch.undo()
    assert this_process() == mine  # the next heartbeat names it
