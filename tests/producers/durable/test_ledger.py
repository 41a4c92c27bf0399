"""I8 with real processes: agents killed and stopped at random moments; an outside ledger counts. Kafka is real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ledger_run import Judged, conduct, judge
from seekpoint.producers import Node
from seekpoint.schemas import Settings

pytestmark = pytest.mark.cluster


def test_kills_at_random_moments_repeat_nothing_that_was_answered(journal: Settings, tmp_path: Path) -> None:
    """Completed calls 0 more times, in doubt at most once more a takeover, at most once never twice; all runs end."""
    settings = replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.3)
    judged = conduct(settings, tmp_path, runs=40, seed=20261122, deadline_s=120)
    assert judged.faults == [], (tmp_path / "agents.log").read_text()[-3000:]
    assert (judged.finished, judged.kills + judged.stops >= 4) == (40, True)
    assert judged.takeovers > 10, "nobody was disturbed at work: the test proved nothing"


async def test_the_judge_sees_what_must_not_happen(journal: Settings, tmp_path: Path) -> None:
    """A call after its answer, one too many, an at-most-once call made twice, runs that never end."""
    async with Node.connect(replace(journal, node_id="life-1")) as node, node.open("run-1") as process:
        await process.step("one", lambda: None)
    lines = [("call", 1, "one"), ("returned", 1, "one"), ("call", 2, "one"), ("call", 1, "once"), ("call", 1, "once")]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(
        "".join(f'{{"what": "{what}", "by": {by}, "key": "run-1/{name}:1"}}\n' for what, by, name in lines)
    )
    judged = Judged(runs=1)
    judge(journal, ledger, judged)
    assert judged.faults == [
        "run-1/one:1 was called after its answer was given",
        "run-1/one:1 was called 2 times, 1 are allowed",
        "run-1/once:1 was called 2 times, 1 are allowed",
        "1 runs are not finished",
    ]


async def test_a_fenced_owners_call_is_in_doubt_whichever_life_it_is(journal: Settings, tmp_path: Path) -> None:
    """A life that was stopped woke and took the process over; the later one did not know yet. Its own is a fault."""
    for life in (2, 1):  # the later life owns it first
        async with Node.connect(replace(journal, node_id=f"life-{life}")) as node:
            process = await node.open("run-2", take_over=True)
            if life == 1:
                await process.step("one", lambda: None)
    said = [("call", 1), ("returned", 1), ("call", 2)]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(f'{{"what": "{what}", "by": {by}, "key": "run-2/one:1"}}\n' for what, by in said))
    judged = Judged(runs=0)
    judge(journal, ledger, judged)
    assert judged.faults == []
    ledger.write_text(ledger.read_text() + '{"what": "call", "by": 1, "key": "run-2/one:1"}\n')
    judge(journal, ledger, judged)
    assert judged.faults == [
        "run-2/one:1 was called after its answer was given",
        "run-2/one:1 was called 3 times, 2 are allowed",
    ]
