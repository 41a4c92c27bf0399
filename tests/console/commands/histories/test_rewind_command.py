"""``seekpoint rewind`` on a real Kafka: what the plan says, what the outside sees, and kill -9 around the entry."""

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

pytestmark = pytest.mark.cluster

AGENT = """
from seekpoint.producers import Effect, agent

def tell(what):
    with open("ledger.txt", "a") as file:
        file.write(what + "\\n")
    return what

@agent("triage")
async def triage(process, order):
    choice = await process.decide("choose", lambda request: tell("pay"), {"order": order})
    await process.say("assistant", choice)
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
    if isinstance(body, b.Rewound) and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    acknowledged = await append(self, body)
    if isinstance(body, b.Rewound):
        os.kill(os.getpid(), signal.SIGKILL)
    return acknowledged

LogSession.append = dies
sys.exit(main())
"""


def test_another_answer_leads_the_code_elsewhere(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """The model is not asked again, and nothing is paid twice, whoever dies on the way."""
    point_at(journal)
    write_module("shop", AGENT)
    run = ("run", "p", "--agent", "shop:triage")
    assert shell(*run, "--input", "4711").code == 1
    seq = shell("state", "p", "--json").json["seq"]
    other = ("rewind", "p", "--answer", 'choose:1="reject"')
    refused = shell(*other, "--dry-run", "--json")
    assert (refused.code, refused.json["effects"], refused.json["dry_run"]) == (0, ["pay:1"], True), refused.err
    assert shell("state", "p", "--json").json["seq"] == seq
    refused = shell(*other)
    assert (refused.code, "EffectsStand" in refused.err or "pay:1" in refused.err) == (4, True)
    for when in ("before", "after"):
        command = [sys.executable, "-c", KILLED, when, *other, "--effects", "keep"]
        assert subprocess.run(command, env=dict(os.environ), timeout=60, check=False).returncode == -9
    went_back = shell(*other, "--effects", "keep", "--reason", "no receipt", "--actor", "ann")
    assert (went_back.code, "keeps   pay:1" in went_back.out) == (0, True), went_back.err
    ran = shell(*run, "--resume")
    assert (ran.code, ran.json) == (0, "rejected"), ran.err
    assert Path("ledger.txt").read_text().split() == ["pay", "paid", "rejected"]
    rows = [json.loads(line) for line in shell("log", "p", "--json").out.splitlines()]
    rewound = [row for row in rows if row["kind"] == "rewound"]
    assert len(rewound) == 2  # the one killed after it, and the last one
    assert rewound[-1]["actor"] == "ann"
    assert shell("verify", "p").code == 0


def test_a_moment_that_is_not_there_is_refused(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """The error says where to look; two moments at once are a wrong command."""
    point_at(journal)
    write_module("shop", AGENT)
    shell("run", "p", "--agent", "shop:triage", "--input", "4711")
    refused = shell("rewind", "p", "--before", "nothing:1")
    assert (refused.code, "seekpoint steps p" in refused.err) == (4, True)
    assert shell("rewind", "p", "--to-seq", "1", "--turn", "1").code == 2
    assert shell("rewind", "p", "--answer", "choose:1").code == 2
    ended = shell("rewind", "p", "--after", "choose:1", "--dry-run", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["effects"] == ["pay:1"]
    back = shell("rewind", "p", "--before", "choose:1", "--dry-run")
    assert (back.code, "forgets choose:1 (decision, succeeded)" in back.out) == (0, True), back.err


def test_two_runs_are_compared(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """The exit code says whether they differ."""
    point_at(journal)
    write_module("shop", AGENT)
    for process_id, order in (("p", "1"), ("q", "2")):
        shell("run", process_id, "--agent", "shop:triage", "--input", order)
    found = shell("diff", "p", "q")
    assert (found.code, "decision choose:1" in found.out, "order: 1 is now 2" in found.out) == (1, True, True)
    assert shell("diff", "p", "q", "--json").json["is_empty"] is False
    same = shell("diff", "p", "p", "--json")
    assert (same.code, same.json["is_empty"], same.json["same_calls"]) == (0, True, 2)
