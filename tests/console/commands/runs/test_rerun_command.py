"""``seekpoint rerun`` on a real Kafka, with an outside ledger: one process, many of them, and kill -9 on the way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seekpoint.console.services.histories.rerun_selection import sampled
from seekpoint.schemas.config.settings import Settings
from shells import Shell

SHOP = """
import os, time
from seekpoint.producers import Effect, agent

def tell(what):
    with open("ledger.txt", "a") as file:
        file.write(what + "\\n")
    return what

def model(request):
    tell(request["model"])
    time.sleep(float(os.environ.get("SLOW", "0")))
    action = "pay" if request["model"] == "small" or request["order"] % 2 else "refuse"
    return {"action": action, "usage": {"prompt_tokens": 1000000, "completion_tokens": 0}}

@agent("triage")
async def triage(process, order):
    choice = await process.decide("choose", model, {"model": "small", "order": order})
    if choice["action"] == "pay":
        await process.effect("pay", tell, f"paid-{order}", semantics=Effect.AT_MOST_ONCE)
    return choice["action"]

def score(rerun):
    return rerun.result == rerun.first_result
"""
CODE = ("--agent", "triage", "-m", "shop")
SEEKPOINT = (sys.executable, "-c", "import sys; from seekpoint.console.cli import main; sys.exit(main())")


def ledger() -> list[str]:
    """Return what the bodies did outside."""
    return Path("ledger.txt").read_text().split()


@pytest.fixture
def shop(journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]) -> None:
    """The agent's module, and settings that commands of other programs find too."""
    point_at(journal)
    write_module("shop", SHOP)
    Path("prices.toml").write_text('[large]\ninput = "3"\noutput = "1"\n[small]\ninput = "1"\noutput = "1"\n')


@pytest.mark.cluster
@pytest.mark.usefixtures("shop")
def test_one_process_is_run_again_on_another_model(shell: Shell) -> None:
    """A dry run writes nothing; the rerun asks the other model, pays nothing, and shows what differs."""
    assert shell("run", "p", "--agent", "shop:triage", "--input", "4").code == 0
    plan = shell("rerun", "p", *CODE, "--model", "large", "--dry-run", "--json")
    assert (plan.code, plan.json["later"], plan.json["dry_run"]) == (0, ["choose:1", "pay:1"], True), plan.err
    assert "nothing was run" in shell("rerun", "p", *CODE, "--dry-run").err
    assert shell("state", "p~large").code == 1

    found = shell("rerun", "p", *CODE, "--model", "large", "--prices", "prices.toml", "--json")
    assert (found.code, found.json["result"], found.json["first_result"]) == (0, "refuse", "pay"), found.err
    assert found.json["difference"]["right"]["cost_usd"] == "3"
    assert ledger() == ["small", "paid-4", "large"]
    table = shell("rerun", "p", *CODE, "--model", "large")
    assert (table.code, '"small" is now "large"' in " ".join(table.out.split())) == (0, True), table.out
    assert "rerun" in shell("lineage", "p").out

    assert shell("fork", "p", "p-fork", "--after", "choose:1", "--effects", "recorded").code == 0
    assert shell("run", "p-fork", "--agent", "shop:triage", "--resume").json == "pay"
    many = shell("rerun", *CODE, "--model", "large", "--dry-run")
    assert (many.out.split(), "1 process would be" in many.err) == (["p"], True), "neither the fork nor the rerun"

    other = shell("rerun", "p", "other", *CODE, "--input", "6")
    assert (other.code, "EffectRefused" in other.err) == (1, True), other.err
    assert ledger() == ["small", "paid-4", "large", "small"]
    wrong = [("p", "--sample", "1"), ("--input", "1"), ("--score", "shop:nothing")]
    assert [shell("rerun", *one, *CODE).code for one in wrong] == [2, 2, 2]
    assert shell("rerun", "p", "--agent", "nobody", "-m", "shop").code == 2


@pytest.mark.cluster
@pytest.mark.usefixtures("shop")
def test_many_reruns_go_on_after_a_kill(shell: Shell) -> None:
    """The same command runs only what is left, scores all, and keeps to its budget. No effect is made again."""
    for number in range(6):
        assert shell("run", f"p{number}", "--agent", "shop:triage", "--input", str(number)).code == 0
    before = ledger()
    command = ("rerun", *CODE, "--model", "large", "--score", "shop:score", "--concurrency", "2")
    killed = subprocess.Popen(
        [*SEEKPOINT, *command], env={**os.environ, "SLOW": "1.5"},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while ledger().count("large") < 3 and time.monotonic() < until:
        time.sleep(0.05)
    killed.kill()
    assert killed.wait() == -9
    asked = ledger().count("large")
    assert 3 <= asked <= 4, "one pair had ended, another one was under way"

    spent = shell(*command, "--prices", "prices.toml", "--budget", "0.000001", "--json")
    assert (spent.code, spent.json["summary"]["skipped"] > 0) == (1, True), spent.err
    listed = shell(*command, "--dry-run", "--json")
    assert listed.json["processes"] == [f"p{number}" for number in range(6)], listed.err
    found = shell(*command, "--prices", "prices.toml", "--report", "out.html", "--json")
    assert found.code == 0, found.err
    assert found.json["summary"] == {
        "agent": "triage", "model": "large", "reruns": 6, "finished": 6, "same_outcome": 3, "skipped": 0,
        "cost_usd": found.json["summary"]["cost_usd"], "first_cost_usd": None, "mean_score": 0.5,
    }  # fmt: skip
    assert [one["score"] for one in found.json["reruns"]] == [0, 1, 0, 1, 0, 1]
    again = ledger()[len(before) :]
    assert set(again) == {"large"}
    assert 6 <= len(again) <= 8, "those that the kill interrupted asked once more"
    page = Path("out.html").read_text()
    assert "p5~large" in page
    assert "<script" not in page
    assert shell(*command).code == 0
    assert ledger() == [*before, *again]


def test_a_sample_depends_on_ids_and_seed_alone() -> None:
    """Other processes that come or go change it only where they are in it."""
    ids = [f"p{number}" for number in range(100)]
    chosen = sampled(ids, 10, "")
    assert len(set(chosen)) == 10
    assert sampled([*reversed(ids)], 10, "") == chosen
    assert sampled(ids, 10, "other") != chosen
    assert sampled(ids, 20, "")[:10] == chosen
    assert sampled([one for one in ids if one not in chosen[:3]], 7, "") == chosen[3:]
