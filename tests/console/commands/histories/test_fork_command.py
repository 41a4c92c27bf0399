"""``seekpoint fork``, ``steps`` and ``lineage`` on a real Kafka: what a fork does outside, and kill -9 on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seekpoint.schemas.config.settings import Settings
from shells import Shell

AGENT = """
from seekpoint.producers import Effect, agent

def tell(what):
    with open("ledger.txt", "a") as file:
        file.write(what + "\\n")
    return what

@agent("triage")
async def triage(process, order):
    choice = await process.decide("choose", lambda request: tell("pay"), {"order": order})
    await process.effect(choice, tell, "did-" + choice, semantics=Effect.AT_MOST_ONCE)
    return await process.step("close", tell, "closed-" + choice)
"""

KILLED = """
import os, signal, sys
from seekpoint.console.cli import main
from seekpoint.producers.log_session import LogSession
from seekpoint.schemas import bodies as b

append, when = LogSession.append, sys.argv.pop(1)

async def dies(self, body):
    if isinstance(body, b.Forked) and when != "after":
        os.kill(os.getpid(), signal.SIGSTOP if when == "stopped" else signal.SIGKILL)
    acknowledged = await append(self, body)
    if isinstance(body, b.Forked) and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return acknowledged

LogSession.append = dies
sys.exit(main())
"""


@pytest.mark.cluster
def test_a_fork_is_run_to_its_end_from_the_command_line(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """Refused by default, answered by the record, live with another answer; the ledger says what ran."""
    point_at(journal)
    write_module("shop", AGENT)
    code = ("--agent", "shop:triage")
    assert shell("run", "p", *code, "--input", "4711").code == 0
    told = ["pay", "did-pay", "closed-pay"]
    plan = shell("fork", "p", "q", "--after", "choose:1", "--dry-run", "--json")
    assert (plan.code, plan.json["later_effects"], plan.json["dry_run"]) == (0, ["pay:1"], True), plan.err
    assert shell("state", "q").code == 1

    assert shell("fork", "p", "q", "--after", "choose:1", "--reason", "what if").code == 0
    refused = shell("run", "q", *code, "--resume")
    assert (refused.code, "EffectRefused" in refused.err or "makes no effect" in refused.err) == (4, True), refused.err
    assert shell("fork", "p", "r", "--before", "choose:1", "--permissive").code == 0
    assert shell("run", "r", *code, "--resume").json == "closed-pay"
    assert Path("ledger.txt").read_text().split() == told

    other = ("--answer", 'choose:1="reject"', "--effects", "live")
    assert shell("fork", "p", "s", *other).code == 0
    assert shell("run", "s", *code, "--resume").json == "closed-reject"
    assert Path("ledger.txt").read_text().split() == [*told, "did-reject", "closed-reject"]
    calls = {one["key"]: one for one in shell("steps", "s", "--json").json["calls"]}
    assert (calls["choose:1"]["inherited_from"], calls["choose:1"]["output"]) == ("p", "reject")
    assert "inherited_from" not in calls["reject:1"]
    assert "succeeded, inherited" in shell("steps", "q").out
    assert "succeeded, answered" in shell("steps", "s").out

    assert shell("fork", "s", "t", "--after", "close:1").code == 0
    kin = shell("lineage", "s", "--json")
    assert [one["process_id"] for one in kin.json["parents"]] == ["p"], kin.err
    assert [(one["process_id"], one["of"], one["depth"], one["status"]) for one in kin.json["descendants"]] == [
        ("t", "s", 1, "running")
    ]
    tree = [line.split() for line in shell("lineage", "s").out.splitlines()]
    assert tree == [["p", "(finished)"], ["s", "(finished)", "<"], ["t", "(fork", "at", "seq", "6,", "running)"]], tree
    assert {one["process_id"] for one in shell("lineage", "p", "--json").json["descendants"]} == {*"qrst"}
    gone = shell("lineage", "nobody")
    assert (gone.code, "no such process" in gone.err) == (1, True), gone.err


@pytest.mark.cluster
def test_a_fork_that_dies_around_its_entry_is_whole_or_nothing(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """Before it, the id can be used again; behind it, the fork goes on. The parent does not notice."""
    point_at(journal)
    write_module("shop", AGENT)
    assert shell("run", "p", "--agent", "shop:triage", "--input", "4711").code == 0
    seq = shell("state", "p", "--json").json["seq"]
    for when in ("before", "after"):
        command = [sys.executable, "-c", KILLED, when, "fork", "p", when, "--permissive", "--after", "choose:1"]
        assert subprocess.run(command, env=dict(os.environ), timeout=60, check=False).returncode == -9
    assert shell("run", "before", "--agent", "shop:triage", "--resume").code == 4
    assert shell("fork", "p", "before", "--permissive", "--after", "choose:1").code == 0
    assert shell("run", "before", "--agent", "shop:triage", "--resume").json == "closed-pay"
    assert shell("fork", "p", "before").code == 4
    assert shell("run", "after", "--agent", "shop:triage", "--resume", "--take-over").json == "closed-pay"
    assert shell("state", "p", "--json").json["seq"] == seq
    assert Path("ledger.txt").read_text().split() == ["pay", "did-pay", "closed-pay"]


@pytest.mark.cluster
def test_an_id_that_a_stopped_fork_has_claimed_is_free_again(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """As on another host, nobody sees that its program is gone. If it wakes, it is fenced and writes nothing."""
    point_at(replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.3))
    write_module("shop", AGENT)
    assert shell("run", "p", "--agent", "shop:triage", "--input", "4711").code == 0
    command = [sys.executable, "-c", KILLED, "stopped", "fork", "p", "q", "--after", "choose:1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as stopped:
        try:
            os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
            again = shell("fork", "p", "q", "--permissive", "--after", "choose:1")
            assert again.code == 0, again.err
        finally:
            stopped.send_signal(signal.SIGCONT)
        err = stopped.communicate(timeout=60)[1]
        assert (stopped.returncode, "Fenced" in err or "fenced" in err) == (4, True), err
    assert shell("run", "q", "--agent", "shop:triage", "--resume").json == "closed-pay"
    kinds = [json.loads(line)["kind"] for line in shell("log", "q", "--json").out.splitlines()]
    assert kinds.count("claim") > 1
    assert Path("ledger.txt").read_text().split() == ["pay", "did-pay", "closed-pay"]
