"""``seekpoint effects``: what is in doubt, what it is about, and a person's word on it. On a real Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from console_on_memory import on
from cut_offs import cut_here, cut_off
from outside_ledger import Died, Ledger
from seekpoint.compose import create_topics_sync
from seekpoint.console.services.facts.effect_details import effects_of
from seekpoint.producers import Effect, Node, NotDone
from seekpoint.producers.process import durable_side
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.partition import partition_of
from shells import Shell

ONCE = Effect.AT_MOST_ONCE


async def leave_in_doubt(node: Node, ledger: Ledger) -> None:
    """One effect done, with its compensation owed, and one whose owner died in the call."""
    process = await node.open("order-1", take_over=True)
    await process.effect("book", lambda room: f"no. {room}", "12", compensate="rooms")
    ledger.fails = [Died()]
    await cut_off(process.effect("pay", ledger.pay, 5, semantics=ONCE, business_key="order-1"))
    durable_side(process).abandon()


async def test_the_facts_of_an_effect_show_doubt_and_obligations() -> None:
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


def failing(error: BaseException) -> Callable[..., Any]:
    """What an effect calls, once."""
    ledger = Ledger()
    ledger.fails = [error]
    return ledger.pay


async def turns_of_effects(node: Node, *, leave: bool = False) -> None:
    """An effect done and one refused in its first turn, one in doubt in its second; then finished, unless left."""
    process = await node.open("order-1")
    turns = process.turns()
    await anext(turns)
    await process.effect("book", lambda room: f"no. {room}", "12")
    with pytest.raises(NotDone):
        await process.effect("pay", failing(NotDone("declined")), 5, semantics=ONCE, business_key="order-1")
    await anext(turns)
    await cut_off(process.effect("mail", cut_here, semantics=ONCE))
    if leave:
        durable_side(process).abandon()
    else:
        await process.finish({"sent": True})


@pytest.mark.parametrize("leave", [True, False], ids=["its turn is over", "finished"])
def test_all_effects_of_all_processes_are_listed(seekpoint: Shell, log: MemoryLog, leave: bool) -> None:
    """`ls --all` without an id reads the journal: states forget what is settled."""
    on(log, lambda node: turns_of_effects(node, leave=leave))
    listed = seekpoint("effects", "ls", "--all", "--json").json["effects"]
    assert [one["key"] for one in listed] == ["1/book:1", "1/pay:1", "2/mail:1"]
    assert listed == seekpoint("effects", "ls", "order-1", "--all", "--json").json["effects"]


def test_an_effect_that_the_state_lacks_is_shown_from_the_journal(seekpoint: Shell, log: MemoryLog) -> None:
    """Of turns that are over: the facts as they were, every entry, and on stderr where they come from."""
    on(log, lambda node: turns_of_effects(node, leave=True))
    assert "1/pay:1" not in on(log, lambda node: node.recover("order-1")).state.calls
    shown = seekpoint("effects", "show", "order-1", "1/pay:1", "--json")
    facts = shown.json
    assert (facts["status"], facts["business_key"], facts["attempts"]) == ("failed", "order-1", 1)
    assert facts["error"]["undone"] is True
    assert [entry["kind"] for entry in facts["entries"]] == ["effect_intended", "effect_settled"]
    assert facts["entries"][-1]["seq"] == facts["seq"]
    assert "its turn is over, its state no longer has 1/pay:1; read from the journal" in shown.err
    remembered = seekpoint("effects", "show", "order-1", "2/mail:1", "--json")
    assert (remembered.json["status"], remembered.err) == ("pending", "")
    assert listed(seekpoint) == {"1/book:1": "succeeded", "1/pay:1": "failed", "2/mail:1": "pending"}


def listed(seekpoint: Shell) -> dict[str, str]:
    found = seekpoint("effects", "ls", "order-1", "--all", "--json")
    return {one["key"]: one["status"] for one in found.json["effects"]}


def test_effects_of_a_finished_process_are_shown(seekpoint: Shell, log: MemoryLog) -> None:
    """Its gravestone has a result and no effects; its journal has all. Nobody can settle one any more."""
    on(log, turns_of_effects)
    shown = seekpoint("effects", "show", "order-1", "1/book:1", "--json")
    assert (shown.code, shown.json["status"], shown.json["output"]) == (0, "succeeded", "no. 12")
    assert "the process is finished, its state no longer has 1/book:1" in shown.err
    assert "arguments" in seekpoint("effects", "show", "order-1", "2/mail:1").out
    assert listed(seekpoint) == {"1/book:1": "succeeded", "1/pay:1": "failed", "2/mail:1": "pending"}
    nothing = seekpoint("effects", "show", "order-1", "nothing:1")
    assert (nothing.code, "seekpoint effects ls order-1 --all" in nothing.err) == (1, True)
    late = seekpoint("effects", "resolve", "order-1", "2/mail:1", "--failed", "no")
    assert (late.code, "seekpoint effects show order-1 2/mail:1" in late.err) == (4, True)


def test_effects_of_a_trimmed_history_are_shown_with_a_warning(
    seekpoint: Shell, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that there was no such effect: nobody could tell. What the state remembers is listed all the same."""
    on(log, lambda node: turns_of_effects(node, leave=True))
    kept = on(log, lambda node: node.recover("order-1"))
    log.trim(partition_of(b"order-1", 2), 3)
    from_checkpoint = "seekpoint.consumers.recovery.recoverer.Recoverer.recover"
    monkeypatch.setattr(from_checkpoint, lambda *_, **__: kept)
    shown = seekpoint("effects", "show", "order-1", "1/book:1")
    assert (shown.code, "the beginning of the history is gone" in shown.err) == (1, True)
    assert listed(seekpoint) == {"2/mail:1": "pending"}
    assert "only effects in its state" in seekpoint("effects", "ls", "order-1", "--all").err


@pytest.mark.cluster
def test_an_operator_shows_and_resolves_an_effect(
    journal: Settings, shell: Shell, point_at: Callable[[Settings], None]
) -> None:
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
    outcome = ("--succeeded", '"seen"', "--actor", "ann", "--reason", "I looked")
    told = shell("effects", "resolve", "order-1", "pay:1", *outcome)
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
