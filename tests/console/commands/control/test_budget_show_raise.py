"""``seekpoint budget show | raise``: what a process may use, and a person's word on it. On a log in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from console_on_memory import ask, chatter, on
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from shells import Ran, Shell


def test_a_budget_is_shown_and_raised(seekpoint: Shell, log: MemoryLog) -> None:
    """The run's and the day's; who raised it stands in the journal."""
    stopper = chatter()

    async def work(node: Node) -> None:
        async with node.open("p") as process:
            await process.set_budget({"usd": "10"}, a_day={"tokens": 1000})
            await process.decide("answer", ask, {"model": "m"})
        async with node.open("free"):
            pass

    assert stopper.name == "chatter"
    on(log, work)
    found = seekpoint("budget", "show", "p", "--json").json
    assert found["run"]["usd"] == {"limit": "10", "spent": "3", "reserved": "0", "left": "7"}
    assert found["of_day"]["tokens"]["left"] == "996"
    assert (found["on_exceed"], found["warn_at"]) == ("fail", "0.8")
    assert "usd" in seekpoint("budget", "show", "p").out
    raised = seekpoint("budget", "raise", "p", "usd", "12.50", "--actor", "ann", "--json").json
    assert raised["run"]["usd"]["left"] == "9.50"
    assert seekpoint("budget", "raise", "p", "tokens", "5000", "--day").code == 0
    assert seekpoint("budget", "show", "p", "--json").json["of_day"]["tokens"]["limit"] == "5000"
    noted = on(log, lambda node: _noted(node))
    assert [(body.dimension, body.scope, body.actor) for body in noted] == [
        ("usd", "run", "ann"), ("tokens", "day", None)
    ]  # fmt: skip
    assert seekpoint("budget", "raise", "p", "coins", "1").code == 2
    assert seekpoint("budget", "raise", "free", "usd", "1").code == 4
    assert seekpoint("budget", "show", "free").code == 4
    assert seekpoint("budget", "raise", "nobody", "usd", "1").code == 1


async def _noted(node: Node) -> list[Any]:
    bodies = [one.entry.body async for one in node.entries("p", kinds=["budget_noted"])]
    return [body for body in bodies if getattr(body, "kind", None) == "raised"]


def test_a_budget_of_a_living_owner_is_not_raised(seekpoint: Shell, log: MemoryLog) -> None:
    """He would be fenced in the middle of his work."""

    async def work(node: Node) -> Ran:
        async with node.open("p") as process:
            await process.set_budget({"usd": "10"})
            return await asyncio.to_thread(seekpoint, "budget", "raise", "p", "usd", "12")

    refused = on(log, work)
    assert (refused.code, "owner" in refused.err) == (4, True)


def test_a_command_does_not_use_the_id_of_another_node(
    seekpoint: Shell, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name in the settings, its heartbeat would set that node's processes free."""
    monkeypatch.setenv("SEEKPOINT_NODE_ID", "node-1")

    async def work() -> tuple[Ran, int]:
        async with Node.in_memory(log, node_id="node-1") as node, node.open("p") as process:
            await process.set_budget({"usd": "10"})
            refused = await asyncio.to_thread(seekpoint, "budget", "raise", "p", "usd", "12")
            await process.update("still", "mine")
            return refused, (await node.recover("p")).state.epoch

    refused, epoch = asyncio.run(work())
    assert (refused.code, "owner" in refused.err, epoch) == (4, True, 1)
