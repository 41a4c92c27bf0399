"""Every command on a real Kafka: what it prints, as JSON too, and what it exits with."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from owners import Owner
from raw_kafka import RawKafka
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.producers import Node
from seekpoint.schemas.settings import Settings
from shells import Shell

pytestmark = pytest.mark.cluster

PointAt = Callable[[Settings], None]


@pytest.fixture(scope="module")
def cases(cluster: LocalCluster) -> Settings:
    """A journal with a process of each sort: worked on, finished, failed, degraded, left behind; and poison."""
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
def on_cases(cases: Settings, point_at: PointAt) -> Settings:
    """The environment points at the cases."""
    point_at(cases)
    return cases


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


# --- ps, state, log ---------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("on_cases")
def test_ps_lists_the_processes(shell: Shell) -> None:
    """By id, from the log, each with its condition."""
    ran = shell("ps")
    assert ran.code == 0
    assert "reading from the log" in ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == [
        *("process", "lifecycle", "owner", "epoch", "seq", "mailbox", "last", "kind", "condition", "newest", "offset"),
        *("owned", "for", "behind"),
    ]
    assert [line.split()[0] for line in lines[1:]] == ["case-1", "case-done", "case-err", "case-gap", "case-left"]
    assert "finished" in lines[2]
    assert "degraded" in lines[4]
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
def test_state_shows_now_and_the_past(shell: Shell) -> None:
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
def test_log_shows_each_entry_and_what_became_of_it(shell: Shell) -> None:
    """As lines for people, as JSON lines for programs."""
    ran = shell("log", "case-gap")
    assert ran.code == 0
    assert [line.split()[4] for line in ran.out.splitlines()] == [
        *("kind", "claim", "context_updated", "context_updated"),
    ]
    assert ran.out.splitlines()[-1].endswith("a = 2  [gap]")
    entries = [json.loads(line) for line in shell("log", "case-1", "--json").out.splitlines()]
    assert [entry["seq"] for entry in entries] == [None, 1, 2, 3, 4, 5, None]
    assert entries[4]["body"] == {"kind": "billing", "payload": {"usd": 0.02}}
    assert {entry["verdict"] for entry in entries} == {"claim_won", "applied", "delivered"}


@pytest.mark.usefixtures("on_cases")
def test_log_gives_what_was_asked_for(shell: Shell) -> None:
    """From a seq, of a kind, so many; a misspelt kind is noticed."""
    some = shell("log", "case-1", "--from", "2", "--limit", "2", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in some] == [2, 3]
    kinds = shell("log", "case-1", "--kind", "billing", "--kind", "signal", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in kinds] == ["custom", "signal"]
    ran = shell("log", "case-1", "--kind", "message-said")
    assert (ran.code, ran.out) == (0, "")
    assert "did you mean message_said?" in ran.err
    assert "no entry fits" in ran.err


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
        assert follower.wait(10) == 130
        assert follower.stderr
        assert "Traceback" not in follower.stderr.read()


def test_log_ends_with_its_reader(journal: Settings) -> None:
    """``seekpoint log ID -f | head -1`` does not wait for another entry."""
    with seekpoint(journal, "log", "case-9", "-f", "--json") as follower:
        Owner(RawKafka(journal).append, journal.partitions, "case-9").claim()
        assert follower.stdout
        assert follower.stdout.readline()
        follower.stdout.close()
        assert follower.wait(10) == 141
        assert follower.stderr
        assert follower.stderr.read() == ""


# --- recover, verify --------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("on_cases")
def test_recover_prints_the_report(shell: Shell) -> None:
    """The same as the library's."""
    ran = shell("recover", "case-1")
    assert ran.code == 0
    assert "tier        scan" in ran.out
    found = shell("recover", "case-1", "--json").json
    assert found["report"]["tier"] == "scan"
    assert found["report"]["entries_applied"] == 5  # four and the signal
    assert found["claim"] is None
    assert found["hash"] == shell("state", "case-1", "--json").json["hash"]


def test_recover_claims_and_releases(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """What a dead node left behind is free again; a claim creates nothing that is misspelt."""
    point_at(journal)
    owner = Owner(RawKafka(journal).append, journal.partitions, "case-2")
    owner.claim("node-gone")
    owner.update("a", "1")
    found = shell("recover", "case-2", "--claim", "--json").json
    assert found["claim"]["epoch"] == 2
    assert (found["owner_node"], found["seq"], found["last_kind"]) == (None, 2, "context_updated")
    assert shell("recover", "cse-2", "--claim").code == 1
    assert [process["process_id"] for process in shell("ps", "--json").json["processes"]] == ["case-2"]


async def test_recover_does_not_take_a_living_owners_process(
    shell: Shell, journal: Settings, point_at: PointAt
) -> None:
    """It watches the heartbeat, and is refused; ``--take-over`` is not."""
    hasty = replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.2)
    point_at(hasty)
    async with Node.connect(hasty) as node:
        await node.open("case-3")
        ran = await asyncio.to_thread(shell, "recover", "case-3", "--claim")
        assert ran.code == 4
        assert "the process's owner looks alive" in ran.err
        assert "--take-over" in ran.err
        ran = await asyncio.to_thread(shell, "recover", "case-3", "--claim", "--take-over", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["claim"]["epoch"] == 2


def test_recover_takes_a_degraded_process_only_by_a_persons_word(
    shell: Shell, journal: Settings, point_at: PointAt
) -> None:
    """Refused with the command that accepts the loss; then it is done."""
    point_at(journal)
    owner = Owner(RawKafka(journal).append, journal.partitions, "case-4")
    owner.claim("node-gone")
    owner.seq += 1
    owner.update("a", "1")
    ran = shell("recover", "case-4", "--claim")
    assert ran.code == 4
    assert "seekpoint recover case-4 --claim --accept-degraded" in ran.err
    found = shell("recover", "case-4", "--claim", "--accept-degraded", "--json").json
    assert found["degraded"] is None


@pytest.mark.usefixtures("on_cases")
def test_recover_of_a_finished_process_is_refused(shell: Shell) -> None:
    """Its result stays readable."""
    ran = shell("recover", "case-done", "--claim")
    assert ran.code == 4
    assert "seekpoint state case-done" in ran.err
    assert shell("state", "case-done", "--json").json["result"] == {"refund": 12}


@pytest.mark.usefixtures("on_cases")
def test_verify_folds_twice(shell: Shell) -> None:
    """Several at once; one that is not there is a fault, and does not hide the others."""
    ran = shell("verify", "case-1", "case-gap")
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [["case-1", "yes"], ["case-gap", "yes"]]
    ran = shell("verify", "case-1", "nobody", "--json")
    assert ran.code == 1
    assert "no such process" in ran.err
    [one] = ran.json["processes"]
    assert one["agrees"]
    assert set(one["hashes"]) == {"scan", "audit"}


@pytest.mark.usefixtures("on_cases")
def test_verify_that_finds_a_difference_is_a_fault(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, and the row says no."""
    from seekpoint.consumers import Verification

    wrong = Verification(process_id="case-1", offset=1, seq=1, epoch=1, hashes={"scan": "a", "audit": "b"})
    monkeypatch.setattr("seekpoint.consumers.verification.verify", lambda recoverer, process_id: wrong)
    ran = shell("verify", "case-1")
    assert ran.code == 1
    assert ran.out.splitlines()[1].split() == ["case-1", "no", "1", "a", "b"]


@pytest.mark.usefixtures("on_cases")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["state", "nobody"], 1),
        (["log", "nobody"], 1),
        (["recover", "nobody"], 1),
        (["dlq", "show", "0:999"], 1),
        (["state", "bad\x1bname"], 2),
        (["state", "case-1", "--at-seq", "99"], 4),
        (["state", "case-1", "--at-offset", "9999"], 4),
        (["state", "case-1", "--at-time", "1"], 4),
        (["ps", "--journal", "nobodys"], 1),
        (["upgrade", "--journal", "nobodys"], 1),
        (["ps", "--bootstrap-servers", "127.0.0.1:1"], 3),
        (["topics", "create", "--bootstrap-servers", "127.0.0.1:1"], 3),
    ],
)
def test_what_is_not_there_has_its_exit_code(shell: Shell, arguments: list[str], code: int) -> None:
    """One line on stderr, nothing on stdout, no traceback."""
    ran = shell(*arguments)
    assert ran.code == code
    assert ran.out == ""
    assert ran.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in ran.err
    assert "\x1b" not in ran.err


# --- topics, dlq, upgrade, doctor -------------------------------------------------------------------------------------
def test_topics_are_created_and_checked(shell: Shell, settings: Settings, point_at: PointAt) -> None:
    """Missing: a fault with the command; created: fine, but for the replicas of a single broker; again: the same."""
    point_at(settings)
    ran = shell("topics", "check")
    assert ran.code == 1
    assert "seekpoint topics create" in ran.out
    assert len(shell("topics", "check", "--json").json["findings"]) == 8
    ran = shell("topics", "create")
    assert (ran.code, ran.out) == (0, f"journal {settings.journal}: 4 partitions, format 1\n")
    assert "warning: replication factor is 1, not 3 (8 topics)" in ran.err
    assert shell("topics", "create", "--json").json["partitions"] == 4
    ran = shell("topics", "check")
    assert ran.code == 0
    assert [line.split()[:3] for line in ran.out.splitlines()[1:]] == [["warning", "8", "topics"]]
    assert shell("topics", "check", "--json").json["ok"] is True


def test_topics_of_another_shape_are_refused(
    shell: Shell, journal: Settings, point_at: PointAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is altered."""
    point_at(journal)
    monkeypatch.setenv("SEEKPOINT_PARTITIONS", "16")
    ran = shell("topics", "create")
    assert ran.code == 1
    assert "partitions" in ran.err
    assert shell("topics", "check").code == 1


@pytest.mark.usefixtures("on_cases")
def test_dead_letters_are_listed_and_shown(shell: Shell) -> None:
    """Once a reader has met them; their bytes cannot steer the terminal."""
    assert shell("ps").code == 0
    [letter] = shell("dlq", "ls", "--json").json["letters"]
    ran = shell("dlq", "ls")
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith(letter["place"])
    ran = shell("dlq", "show", letter["place"])
    assert ran.code == 0
    assert "6a 75 6e 6b 1b 5b 33 31 6d" in ran.out
    assert "\x1b" not in ran.out
    short = f"{letter['partition']}:{letter['offset']}"
    assert shell("dlq", "show", short, "--json").json == letter


def test_no_dead_letters_is_said(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """Nothing on stdout."""
    point_at(journal)
    ran = shell("dlq", "ls")
    assert (ran.code, ran.out) == (0, "")
    assert "no dead letters" in ran.err


@pytest.mark.usefixtures("on_cases")
def test_upgrade_has_nothing_to_do(shell: Shell) -> None:
    """There is one format."""
    ran = shell("upgrade")
    assert ran.code == 0
    assert "format 1 is current" in ran.out
    found = shell("upgrade", "--dry-run", "--json").json
    assert (found["format"], found["newest"], found["raised"], found["dry_run"]) == (1, 1, False, True)


def found_by(shell: Shell, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    """The doctor's exit code, and the health of each subject."""
    ran = shell("doctor", "--json", *arguments)
    subjects: dict[str, list[str]] = {}
    for finding in ran.json["findings"]:
        subjects.setdefault(finding["subject"], []).append(finding["health"])
    return ran.code, subjects


@pytest.mark.usefixtures("on_cases")
def test_the_doctor_finds_what_is_wrong(shell: Shell) -> None:
    """A degraded process is a fault; a dead letter and what a dead node left are warnings; each with advice."""
    assert found_by(shell) == (
        1,
        {
            "kafka": ["ok"],
            "redis": ["ok"],
            "topics": ["warning"],
            "replicas": ["ok"],
            "permissions": ["ok"],
            "manifest": ["ok"],
            "view": ["warning"],
            "floors": ["warning"],
            "nodes": ["ok"],
            "processes": ["ok", "error", "warning"],
            "dead letters": ["warning"],
        },
    )
    text = shell("doctor").out
    assert "seekpoint recover case-gap --claim --accept-degraded" in text
    assert "seekpoint recover case-left --claim" in text


async def test_the_doctor_sees_nodes_that_live(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """Their heartbeats move while it looks; all is well then."""
    hasty = replace(journal, owner_timeout_s=5.0, heartbeat_interval_s=0.5)
    point_at(hasty)
    async with Node.connect(hasty) as node:
        await node.open("case-5")
        code, subjects = await asyncio.to_thread(found_by, shell)
        assert code == 0
        assert subjects["nodes"] == subjects["processes"] == ["ok"]


def test_the_doctor_looks_at_what_there_is(
    shell: Shell, settings: Settings, point_at: PointAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No topics: a fault. No Redis: a warning. No Kafka: not reachable, and what stands on it is left out."""
    point_at(replace(settings, redis_url="redis://127.0.0.1:1/0"))
    code, subjects = found_by(shell)
    assert code == 1
    assert subjects["topics"] == ["error"]
    assert subjects["redis"] == ["warning"]
    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert found_by(shell) == (3, {"kafka": ["error"], "redis": ["warning"]})


@pytest.mark.usefixtures("on_cases")
def test_a_quick_doctor_does_not_read_the_journal(shell: Shell) -> None:
    """And says so."""
    code, subjects = found_by(shell, "--quick")
    assert code == 0
    assert subjects["processes"] == ["skipped"]


def test_schemas_are_checked_without_kafka(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine now; a release whose records cannot be read any more is a fault."""
    from seekpoint.schemas import compatibility

    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    ran = shell("schema", "check")
    assert (ran.code, ran.out) == (0, "")
    assert shell("schema", "check", "--json").json == {"ok": True, "findings": []}
    broken = [compatibility.Finding("0.1.0", "Signal.name is gone")]
    monkeypatch.setattr(compatibility, "check_compatibility", lambda: broken)
    ran = shell("schema", "check")
    assert ran.code == 1
    assert "Signal.name is gone" in ran.out
    assert shell("schema", "check", "--json").json["findings"][0]["release"] == "0.1.0"
