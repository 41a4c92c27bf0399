"""``seekpoint ps | state | log`` on a real Kafka: what they print, as JSON too, and what they exit with."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from owners import Owner
from raw_kafka import RawKafka
from seekpoint.schemas.config.settings import Settings
from shells import Shell

pytestmark = pytest.mark.cluster

PointAt = Callable[[Settings], None]


@contextlib.contextmanager
def seekpoint(settings: Settings, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own."""
    environ = {
        **os.environ,
        "SEEKPOINT_JOURNAL": settings.journal,
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
    }
    command = [sys.executable, "-m", "seekpoint.console", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.usefixtures("on_cases")
def test_ps_lists_the_processes(shell: Shell) -> None:
    """From the log, each with its condition."""
    ran = shell("ps", "--wide")
    assert ran.code == 0
    assert "reading from the log" in ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == [
        *("process", "lifecycle", "agent", "updated", "owner", "owned", "for", "seq", "last", "call"),
        *("waits", "since", "epoch", "mailbox", "newest", "offset", "behind", "note"),
    ]
    shown = {line.split()[0]: line for line in lines[1:]}
    assert sorted(shown) == ["case-1", "case-done", "case-err", "case-gap", "case-left"]
    assert "finished" in shown["case-done"]
    assert "degraded" in shown["case-gap"]
    found = {process["process_id"]: process for process in shell("ps", "--json").json["processes"]}
    assert found["case-1"]["mailbox"] == 1
    assert found["case-done"]["finished"] is True
    assert found["case-gap"]["degraded"]["expected_seq"] == 2
    assert found["case-left"]["owner_node"] == "node-gone"


def test_ps_of_a_new_journal_is_empty(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """Nothing on stdout; as JSON an empty list."""
    point_at(journal)
    ran = shell("ps")
    assert (ran.code, ran.out) == (0, "")
    assert "no processes yet" in ran.err
    assert shell("ps", "--json").json == {"journal": journal.journal, "processes": []}


@pytest.mark.usefixtures("on_cases")
def test_state_shows_the_present_and_past_states(shell: Shell) -> None:
    """By seq, by offset, by time; all of it as JSON."""
    ran = shell("state", "case-1")
    assert ran.code == 0
    assert 'status = "checking"' in ran.out
    assert "user: Where is my order?" in ran.out
    now = shell("state", "case-1", "--json").json
    assert now["context"] == {"status": "checking"}
    assert now["mailbox"][0]["payload"] == {"by": "ann"}
    assert shell("state", "case-1", "--at-seq", "1", "--json").json["context"] == {}
    first = now["first_offset"]
    assert shell("state", "case-1", "--at-offset", str(first), "--json").json["seq"] == 0
    assert shell("state", "case-1", "--at-time", "2100-01-01T00:00:00Z", "--json").json["hash"] == now["hash"]


@pytest.mark.usefixtures("on_cases")
def test_log_shows_each_entry_and_its_verdict(shell: Shell) -> None:
    """As lines for people, as JSON lines for programs."""
    ran = shell("log", "case-gap")
    assert ran.code == 0
    kinds = ["kind", "claim", "context_updated", "context_updated"]
    assert [line.split()[2] for line in ran.out.splitlines()] == kinds
    assert ran.out.splitlines()[-1].endswith("  [gap]  a = 2")
    assert [line.split()[4] for line in shell("log", "case-gap", "-w").out.splitlines()] == kinds
    entries = [json.loads(line) for line in shell("log", "case-1", "--json").out.splitlines()]
    assert [entry["seq"] for entry in entries] == [None, 1, 2, 3, 4, 5, None]
    assert entries[4]["body"] == {"kind": "billing", "payload": {"usd": 0.02}}
    assert {entry["verdict"] for entry in entries} == {"claim_won", "applied", "delivered"}


@pytest.mark.usefixtures("on_cases")
def test_log_selects_entries_by_its_options(shell: Shell) -> None:
    """From a seq, of a kind, so many; a misspelt kind is noticed."""
    some = shell("log", "case-1", "--from", "2", "--limit", "2", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in some] == [2, 3]
    kinds = shell("log", "case-1", "--kind", "billing", "--kind", "signal", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in kinds] == ["custom", "signal"]
    ran = shell("log", "case-1", "--kind", "message-said")
    assert (ran.code, ran.out) == (0, "")
    assert "did you mean message_said?" in ran.err
    assert "no entry matches" in ran.err


def test_log_follows_until_it_is_interrupted(journal: Settings) -> None:
    """It waits for a process that does not exist yet, prints each entry as it comes, and ends with 130."""
    with seekpoint(journal, "log", "case-9", "-f", "--json") as follower:
        owner = Owner(RawKafka(journal).append, journal.partitions, "case-9")
        owner.claim()
        assert follower.stdout
        assert json.loads(follower.stdout.readline())["kind"] == "claim"
        owner.update("a", "1")
        assert json.loads(follower.stdout.readline())["seq"] == 1
        follower.send_signal(signal.SIGINT)
        assert follower.wait(120) == 130
        assert follower.stderr
        assert "Traceback" not in follower.stderr.read()


def test_log_ends_when_the_reader_of_the_pipe_ends(journal: Settings) -> None:
    """``seekpoint log PROCESS_ID -f | head -1`` does not wait for another entry."""
    with seekpoint(journal, "log", "case-9", "-f", "--json") as follower:
        Owner(RawKafka(journal).append, journal.partitions, "case-9").claim()
        assert follower.stdout
        assert follower.stdout.readline()
        follower.stdout.close()
        assert follower.wait(120) == 141
        assert follower.stderr
        assert follower.stderr.read() == ""
