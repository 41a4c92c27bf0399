"""``seekpoint promote`` on a real Kafka: a run, its fork, and the run again, with kill -9 around the entry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
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
    await process.update("choice", choice)
    if choice == "pay":
        await process.effect("pay", tell, "paid", semantics=Effect.AT_MOST_ONCE)
        raise ValueError("the bank is closed")
    return await process.step("reject", tell, "rejected")
"""

KILLED = """
import os, signal, sys
from seekpoint.console.cli import main
from seekpoint.producers.log_session import LogSession
from seekpoint.schemas import bodies as b

append, when = LogSession.append, sys.argv.pop(1)

async def dies(self, body):
    if isinstance(body, b.Promoted) and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    acknowledged = await append(self, body)
    if isinstance(body, b.Promoted):
        os.kill(os.getpid(), signal.SIGKILL)
    return acknowledged

LogSession.append = dies
sys.exit(main())
"""


@pytest.mark.cluster
def test_a_promotion_that_dies_around_its_entry_is_whole_or_nothing(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """Run, fork with another answer, run the fork, promote it, run to the end: each body runs once, whoever dies."""
    point_at(journal)
    write_module("shop", AGENT)
    code = ("--agent", "shop:triage")
    assert shell("run", "p", *code, "--input", "4711").code == 1
    assert shell("fork", "p", "q", "--answer", 'choose:1="reject"').code == 0
    assert shell("run", "q", *code, "--resume").json == "rejected"
    told = ["pay", "paid", "rejected"]
    before = shell("state", "p", "--json").json["content_hash"]
    conflict = shell("promote", "q")
    assert (conflict.code, "calls" in conflict.err) == (4, True), conflict.err
    promote = ("promote", "q", "--prefer", "fork")
    plan = shell(*promote, "--dry-run", "--json")
    assert plan.json["resolved"] == {"calls": "fork", "context.choice": "fork"}, plan.err
    assert shell("state", "p", "--json").json["content_hash"] == before
    hashes = []
    for when in ("before", "after"):
        command = [sys.executable, "-c", KILLED, when, *promote]
        assert subprocess.run(command, env=dict(os.environ), timeout=60, check=False).returncode == -9
        hashes.append(shell("state", "p", "--json").json["content_hash"])
    assert (hashes[0], hashes[1] != before) == (before, True)
    again = shell(*promote, "--reason", "no receipt", "--actor", "ann", "--json")
    assert (again.code, again.json["resolved"]) == (0, {"calls": "fork"}), again.err  # the parent kept its payment
    assert shell("state", "p", "--json").json["content_hash"] == hashes[1]
    ran = shell("run", "p", *code, "--resume")
    assert (ran.code, ran.json) == (0, "rejected"), ran.err
    assert Path("ledger.txt").read_text().split() == told
    rows = [json.loads(line) for line in shell("log", "p", "--json").out.splitlines()]
    promoted = [row for row in rows if row["kind"] == "promoted"]
    assert (len(promoted), promoted[-1]["actor"]) == (2, "ann")
    assert shell("verify", "p", "q").code == 0
