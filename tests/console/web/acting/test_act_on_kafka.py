"""The console changes processes of a journal on Kafka, with Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any
from uuid import uuid4

import pytest

from consoles import Served, serving, work_on
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from waiting_processes import Caller, run_until

pytestmark = pytest.mark.cluster


@agent("orders", "1")
async def orders(process: Process, order: str) -> Any:
    await process.step("check", str.upper, order)
    if order == "bad":
        raise ValueError("no such order")
    answer = await process.gate("ship", prompt=f"Ship {order}?")
    return [answer.outcome, answer.actor, answer.reason]


@pytest.fixture(scope="module")
def journal(cluster: LocalCluster) -> Settings:
    settings = cluster.settings(journal=f"act-{uuid4().hex[:8]}", partitions=2, heartbeat_interval_s=0.3)
    create_topics_sync(settings)
    work_on(settings, _work)
    return settings


async def _work(node: Node) -> None:
    await asyncio.gather(*(run_until(node, orders, f"order-{number}", "good", "awaiting") for number in (1, 2)))
    for name in ("bad-1", "bad-2", "bad-3"):
        with suppress(ValueError):
            await node.run(orders, name, "bad")


@pytest.fixture
def acting(journal: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", journal.redis_url or "none")
    monkeypatch.setenv("SEEKPOINT_PARTITIONS", str(journal.partitions))
    with (
        closing(CommandTarget(journal.journal, journal.bootstrap_servers, None)) as target,
        serving(target, ConsoleOptions(port=0, allow_changes=True)) as served,
    ):
        yield served


def test_what_waits_is_answered_and_what_failed_is_redriven(caller: Caller, journal: Settings) -> None:
    """One process, and many; the entries have the actor, and what moved is a conflict there too."""
    gates = caller.client.get("/api/waiting").json()["gates"]
    assert [(one["process_id"], one["prompt"]) for one in gates] == [
        ("order-1", "Ship good?"),
        ("order-2", "Ship good?"),
    ]
    caller.act("approve", id="order-1", gate="ship", reason="it is paid")
    assert work_on(journal, lambda node: node.run(orders, "order-1")) == ["approved", "ann", "it is paid"]
    planned = caller.plan("bulk-redrive", agent="orders", reason="try again")
    assert (sorted(planned["facts"]["selected"]), len(planned["facts"]["left_out"])) == (["bad-1", "bad-2", "bad-3"], 2)
    caller.act("redrive", id="bad-3", reason="this one first")
    done = caller.post("bulk-redrive", agent="orders", reason="try again", plan_id=planned["plan_id"]).json()["outcome"]
    assert (sorted(done["facts"]["done"]), done["facts"]["moved"]) == (["bad-1", "bad-2"], ["bad-3"])
    for name in ("bad-1", "bad-2", "bad-3"):
        [entry] = caller.client.get(f"/api/entries?id={name}&kind=redrive_requested").json()["entries"]
        assert entry["actor"] == "ann"


def test_a_process_is_rewound_and_forked(caller: Caller, journal: Settings) -> None:
    """By a node of the console's own, which releases the process at once."""
    asked = {"id": "order-2", "before": "check:1", "reason": "a wrong order"}
    planned = caller.plan("rewind", **asked)
    assert [one["key"] for one in planned["facts"]["calls"]] == ["check:1", "ship:1"]
    assert caller.post("fork", id="order-2", new_id="order-3", reason="both").json()["outcome"] is None
    caller.act("fork", id="order-2", new_id="order-3", reason="both")
    assert caller.post("rewind", **asked, plan_id=planned["plan_id"]).status_code == 200
    states = work_on(journal, _states)
    assert [sorted(state.calls) for state in states] == [[], ["check:1", "ship:1"]]
    assert [state.owner for state in states] == [None, None]


async def _states(node: Node) -> list[Any]:
    return [(await node.recover(name)).state for name in ("order-2", "order-3")]
