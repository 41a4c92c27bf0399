"""``seekpoint effects``: what is in doubt, what it is about, and a person's word on it. On a real Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from outside_ledger import Died, Ledger
from seekpoint.compose import create_topics_sync
from seekpoint.console.effects import effects_of
from seekpoint.producers import Effect, Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.settings import Settings
from shells import Shell

ONCE = Effect.AT_MOST_ONCE


async def leave_in_doubt(node: Node, ledger: Ledger) -> None:
    """One effect done, with its compensation owed, and one whose owner died in the call."""
    process = await node.open("order-1", take_over=True)
    await process.effect("book", lambda room: f"no. {room}", "12", compensate="rooms")
    ledger.fails = [Died()]
    with pytest.raises(Died):
        await process.effect("pay", ledger.pay, 5, semantics=ONCE, business_key="order-1")
    process.let_go()


async def test_the_facts_of_an_effect_say_what_is_in_doubt_and_what_is_owed() -> None:
    """What ``ls --json`` prints, from a state alone."""
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        await leave_in_doubt(node, Ledger())
        booked, paid = effects_of("order-1", (await node.recover("order-1")).state)
    assert (booked["key"], booked["status"], booked["output"], booked["owed"]) == (
        "book:1", "succeeded", "no. 12", "open",
    )  # fmt: skip
    assert (paid["status"], paid["semantics"], paid["business_key"], paid["attempts"], paid["owed"]) == (
        "pending", "at_most_once", "order-1", 1, None,
    )  # fmt: skip
    assert paid["idempotency_key"] == "order-1/pay:1"


@pytest.mark.cluster
def test_a_person_looks_and_resolves(journal: Settings, shell: Shell, point_at: Callable[[Settings], None]) -> None:
    """ls shows it, show tells all of it, resolve settles it for whoever runs the process next."""
    ledger = Ledger()
    create_topics_sync(journal)
    asyncio.run(_in_doubt(journal, ledger))
    point_at(journal)
    listed = json.loads(shell("effects", "ls", "--json").out)["effects"]
    assert [(one["key"], one["status"], one["owed"]) for one in listed] == [
        ("book:1", "succeeded", "open"), ("pay:1", "pending", None),
    ]  # fmt: skip
    assert "pay:1" in shell("effects", "ls", "order-1").out
    shown = json.loads(shell("effects", "show", "order-1", "pay:1", "--json").out)
    assert [(entry["kind"], entry["arguments"]) for entry in shown["entries"]] == [("effect_intended", "[5]")]
    refused = shell("effects", "resolve", "order-1", "book:1", "--failed", "no")
    assert (refused.code, "is settled" in refused.err) == (4, True)
    assert shell("effects", "resolve", "order-1", "nothing:1", "--failed", "no").code == 1
    assert shell("effects", "resolve", "order-1", "pay:1").code == 2
    assert shell("effects", "resolve", "order-1", "pay:1", "--succeeded", "{").code == 2
    told = shell("effects", "resolve", "order-1", "pay:1", "--succeeded", '"seen"', "--who", "ann", "--why", "I looked")
    assert (told.code, "as ann says" in told.err) == (0, True)
    assert asyncio.run(_pay(journal, ledger)) == "seen"
    entries = json.loads(shell("effects", "show", "order-1", "pay:1", "--json").out)["entries"]
    assert [(entry["kind"], entry["actor"]) for entry in entries[1:]] == [
        ("effect_verdict", "ann"), ("effect_settled", None),
    ]  # fmt: skip
    assert entries[1]["reason"] == "I looked"
    assert entries[2]["settled_by"] == "person"
    assert "order-1/pay:1" in shell("effects", "show", "order-1", "pay:1").out
    assert ledger.calls == {"order-1/pay:1": 1}


async def _in_doubt(settings: Settings, ledger: Ledger) -> None:
    async with Node.connect(settings) as node:
        await leave_in_doubt(node, ledger)


async def _pay(settings: Settings, ledger: Ledger) -> Any:
    async with Node.connect(settings) as node, node.open("order-1", take_over=True) as process:
        await process.effect("book", lambda room: f"no. {room}", "12", compensate="rooms")
        return await process.effect("pay", ledger.pay, 5, semantics=ONCE, business_key="order-1")
