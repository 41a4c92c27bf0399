"""The commands about agents' runs on a real Kafka: what the twin in memory cannot show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seekpoint.compose import create_topics_sync
from seekpoint.schemas.config.settings import Settings
from shells import Shell

pytestmark = pytest.mark.cluster

AGENT = """
from seekpoint.producers import agent


def ask(request):
    return {"model": "m", "content": "yes", "usage": {"input_tokens": 3, "output_tokens": 1}}


@agent("asker")
async def asking(process, input):
    await process.set_budget({"tokens": 10})
    async for turn in process.turns():
        await process.say("user", input)
        await process.decide("answer", ask, {"messages": [message.text for message in process.state.conversation]})
        if turn.number == 2:
            break
    return {"asked": await process.step("count", len, input)}
"""


def test_a_run_is_shown_checked_exported_and_traced(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """From its first entry to its copy under another id, with the journal's own schemas in the file."""
    point_at(journal)
    write_module("asker", AGENT)
    ran = shell("run", "p", "--agent", "asker:asking", "--input", '"four"')
    assert (ran.code, ran.json) == (0, {"asked": 4}), ran.err
    assert [call["key"] for call in shell("steps", "p", "--json").json["calls"]] == [
        *("budget:1", "1/answer:1", "2/answer:1", "2/count:1")
    ]
    assert shell("replay-check", "p", "--agent", "asker:asking").code == 0
    every = shell("replay-check", "--all", "-m", "asker", "--json")
    assert (every.code, every.json["same"], every.json["processes"][0]["process_id"]) == (0, 1, "p"), every.err
    assert shell("replay-check", "--all", "--open", "-m", "asker", "--json").json["processes"] == []
    assert [shell("ps", *how, "--json").json["processes"] == [] for how in ((), ("--open",))] == [False, True]
    assert shell("export", "p", "p.spk").code == 0
    assert shell("replay-check", "--history", "p.spk", "--agent", "asker:asking").code == 0
    assert shell("import", "p.spk", "--as", "q").code == 0
    assert shell("import", "p.spk", "--as", "q", "--json").json["entries"] == 0
    assert shell("verify", "p", "q").code == 0
    assert shell("state", "q", "--json").json["finished"] is True
    assert shell("export", "--dataset", "all.jsonl", "--all", "--kind", "decision", "--json").json["calls"] == 4
    rows = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert {row["process"] for row in rows} == {"p", "q"}
    assert shell("trace", "p", "--json").json == shell("trace", "p", "--json").json
    refused = shell("budget", "raise", "p", "tokens", "20")
    assert (refused.code, "finished" in refused.err) == (4, True)


def test_an_incident_becomes_a_failing_test(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """The commands of docs/guides/changing-code.md: capture, replay into staging, check changed code."""
    staged = replace(journal, journal=f"{journal.journal}-staged")
    create_topics_sync(staged)
    point_at(journal)
    write_module("asker", AGENT)
    write_module("mended", AGENT.replace('"count", len, input', '"count", len, input + "!"'))
    profile = f'bootstrap_servers = "{journal.bootstrap_servers}"\n'
    Path("clusters.toml").write_text(f"[clusters.prod]\n{profile}[clusters.staging]\n{profile}staging = true\n")
    with_clusters = ("--config", "clusters.toml")
    assert shell("run", "case-17", "--agent", "asker:asking", "--input", '"four"').code == 0
    before = shell("state", "case-17", "--json").json
    source, target = (f"{name}/{one.journal}.journal" for name, one in (("prod", journal), ("staging", staged)))
    captured = shell("replay", "--from", source, "--into", "run.spk", "--process", "case-17", *with_clusters)
    assert captured.code == 0, captured.err
    played = shell("replay", "--from", "run.spk", "--into", target, *with_clusters)
    assert (played.code, "source and target match" in played.err) == (0, True), played.err
    assert shell("replay-check", "--history", "run.spk", "--agent", "asker:asking").code == 0
    failing = shell("replay-check", "--history", "run.spk", "--agent", "mended:asking")
    assert (failing.code, "count:1" in failing.out + failing.err) == (1, True)
    point_at(staged)
    assert shell("state", "case-17", "--json").json["content_hash"] == before["content_hash"]


WAITS = """
import asyncio
from pathlib import Path
from seekpoint.producers import agent


async def look():
    return "seen"


@agent("waiter", version="1")
async def waiting(process, input):
    seen = await process.step("look", look)
    if not Path("go").exists():
        print("waiting", flush=True)
        await asyncio.sleep(600)
    return await process.step("go on", str, seen)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_ended_is_resumed_at_once(
    shell: Shell,
    journal: Settings,
    point_at: Callable[[Settings], None],
    write_module: Callable[[str, str], None],
    number: signal.Signals,
) -> None:
    """Killed, its owner is known to be dead on this host, with no name set; told to stop, it lets its process go."""
    point_at(journal)
    write_module("waiter", WAITS)
    assert "SEEKPOINT_NODE_ID" not in os.environ
    command = [sys.executable, "-m", "seekpoint.console", "run", "p", "--agent", "waiter:waiting", "--input", "null"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "waiting\n"
        running.send_signal(number)
        code = running.wait(30)
    assert code == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    owned = shell("state", "p", "--json").json["owner"]
    assert (owned is None) is (number is not signal.SIGKILL)
    Path("go").touch()
    began = time.monotonic()
    ran = shell("run", "p", "--agent", "waiter:waiting")
    assert (ran.code, ran.json) == (0, "seen"), ran.err
    assert time.monotonic() - began < journal.owner_timeout_s * 0.6
