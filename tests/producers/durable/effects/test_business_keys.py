"""Business keys and crashes: who has one is what the journal says of the effect that took it. In memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from cut_offs import cut_off
from open_processes import durable_side
from outside_ledger import Died, Ledger
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.dispatch.dispatcher import Dispatcher
from seekpoint.producers.durable.effects.business_keys import KeyHolder
from seekpoint.producers.durable.effects.connectors import Connector, Connectors, NotDone
from seekpoint.producers.durable.effects.effect_context import is_released
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
from seekpoint.producers.node import runtime_of
from seekpoint.producers.node_services import AgentNode
from seekpoint.producers.testing import When, crash_at
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import BudgetExceeded, EffectDuplicate, EffectFailed, Fenced

KEY = "order-1"
ONCE = Effect.AT_MOST_ONCE


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


async def holder(node: AgentNode, name: str = "pay") -> Any:
    """Whom the key's own value names: who took it last, whatever became of that."""
    value = (await node.recover(f"shared:effect-key/{name}/{KEY}", missing_ok=True)).state.shared
    return None if value is None else f"{value['process_id']}/{value['key']}"


async def pays(node: Any, ledger: Ledger, process_id: str = "q") -> str:
    """What another process gets that asks for the key."""
    async with node.open(process_id) as process:
        return str(await process.effect("pay", ledger.pay, 6, business_key=KEY))


def payer(ledger: Ledger, meanwhile: Callable[[Process], Any] | None = None) -> Agent:
    """An agent whose payment fails; it goes on, once ``meanwhile`` was done."""

    @agent("payer")
    async def run(process: Process, input: Any) -> str:
        try:
            await process.effect("pay", ledger.pay, 5, business_key=KEY, semantics=ONCE)
        except NotDone:
            if meanwhile is not None:
                await meanwhile(process)
        return "over"

    return run


async def test_a_key_is_not_lost_if_its_owner_dies_before_it_gives_it_back(ledger: Ledger) -> None:
    """Its value still names the dead owner's effect; the journal says that nothing was done, and that counts."""
    ledger.fails = [NotDone("declined")]
    crash = crash_at(call="pay:1", ended=True, when=When.ACKNOWLEDGED)
    seen: list[Any] = []

    async def look(process: Process) -> None:
        seen.append(await holder(process.node))
        seen.append(await pays(process.node, ledger))

    assert await crash.run(payer(ledger, look), "p") == "over"
    assert seen == ["p/pay:1", "paid 6"]
    assert ledger.calls == {"p/pay:1": 1, "q/pay:1": 1}


async def test_the_same_process_may_ask_again_as_another_effect(ledger: Ledger) -> None:
    """As it may without a crash."""
    ledger.fails = [NotDone("declined")]

    @agent("payer")
    async def run(process: Process, input: Any) -> Any:
        try:
            return await process.effect("pay", ledger.pay, 5, business_key=KEY)
        except NotDone:
            return await process.effect("pay", ledger.pay, 4, business_key=KEY)

    assert await crash_at(call="pay:1", ended=True, when=When.ACKNOWLEDGED).run(run, "p") == "paid 4"


async def test_a_finished_process_keeps_no_key_of_what_was_not_done(ledger: Ledger) -> None:
    """Its state has forgotten the effect; its journal has not."""
    ledger.fails = [NotDone("declined")]
    crash = crash_at(call="pay:1", ended=True, when=When.ACKNOWLEDGED)
    assert await crash.run(payer(ledger), "p") == "over"
    async with Node.in_memory(crash.log) as node:
        assert (await node.recover("p")).state.finished
        assert await holder(node) == "p/pay:1"
        assert await pays(node, ledger) == "paid 6"
        assert await holder(node) == "q/pay:1"


async def test_a_turn_that_is_over_keeps_no_key_of_what_was_not_done(ledger: Ledger) -> None:
    """The same, of a process that goes on."""
    ledger.fails = [NotDone("declined")]
    seen: list[Any] = []

    @agent("payer")
    async def run(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            if turn.number == 2:
                await process.step("one more", len, "")
                assert "1/pay:1" not in (await process.node.recover("p")).state.calls
                seen.extend([await holder(process.node), await pays(process.node, ledger)])
                return "over"
            with pytest.raises(NotDone):
                await process.effect("pay", ledger.pay, 5, business_key=KEY)
        return None

    assert await crash_at(call="1/pay:1", ended=True, when=When.ACKNOWLEDGED).run(run, "p") == "over"
    assert seen == ["p/1/pay:1", "paid 6"]


async def test_an_earlier_turn_keeps_the_key_of_an_effect_that_succeeded(node: Node, ledger: Ledger) -> None:
    """The state has dropped the effect; the history still has its outcome."""

    @agent("payer")
    async def run(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            if turn.number == 2:
                await process.step("one more", len, "")
                assert "1/pay:1" not in (await node.recover("p")).state.calls
                with pytest.raises(EffectDuplicate):
                    await pays(node, ledger)
                return "over"
            await process.effect("pay", ledger.pay, 5, business_key=KEY)
        return None

    assert await node.run(run, "p") == "over"
    assert ledger.calls == {"p/1/pay:1": 1}


@pytest.mark.parametrize("when", [When.UNSENT, When.UNACKNOWLEDGED])
async def test_a_key_whose_effect_may_yet_happen_stays_taken(ledger: Ledger, when: When) -> None:
    """Its owner died beside the intent: whoever resumes it goes on with it, and is not refused its own key."""
    seen: list[str] = []

    @agent("payer")
    async def run(process: Process, input: Any) -> Any:
        if seen:
            with pytest.raises(EffectDuplicate):
                await pays(process.node, ledger)
        seen.append("run")
        return await process.effect("pay", ledger.pay, 5, business_key=KEY)

    assert await crash_at(call="pay:1", when=when).run(run, "p") == "paid 5"
    assert seen == ["run", "run"]
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_key_is_free_once_nothing_can_come_of_it(ledger: Ledger) -> None:
    """Its owner died before the intent, and the code that finished the process asked for something else."""

    @agent("payer")
    async def pay(process: Process, input: Any) -> Any:
        return await process.effect("pay", ledger.pay, 5, business_key=KEY)

    @agent("payer")
    async def leave(process: Process, input: Any) -> Any:
        with pytest.raises(EffectDuplicate):
            await pays(process.node, ledger, "r")
        return "left"

    crash = crash_at(call="pay:1", when=When.UNSENT)
    assert await crash.run(pay, "p", resumed_by=leave) == "left"
    async with Node.in_memory(crash.log) as node:
        assert await pays(node, ledger) == "paid 6"


@pytest.mark.parametrize("how", ["done", "raised", "unknown"])
async def test_what_was_done_or_may_have_been_keeps_its_key_for_ever(node: Node, ledger: Ledger, how: str) -> None:
    """Of a finished process too: a history that says nothing for certain gives nothing back."""
    ledger.fails = {"done": [], "raised": [ConnectionError("reset")], "unknown": [Died()]}[how]  # type: ignore[assignment]
    process = await node.open("p")
    paying = process.effect("pay", ledger.pay, 5, business_key=KEY)
    with suppress(ConnectionError):
        await (cut_off(paying) if how == "unknown" else paying)
    await process.finish()
    with pytest.raises(EffectDuplicate):
        await pays(node, ledger)
    await node.shared(f"effect-key/pay/{KEY}").set(None)  # a person who knows better
    assert await pays(node, ledger, "r") == "paid 6"


async def test_what_was_trimmed_counts_as_done(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell any more: rather never than twice."""
    ledger.fails = [NotDone("declined")]
    crash = crash_at(call="pay:1", ended=True, when=When.ACKNOWLEDGED)
    await crash.run(payer(ledger), "p")
    mine = KeyHolder("p", "pay:1", "p/pay:1")
    async with Node.in_memory(crash.log) as node:
        checkpoint = await node.recover("p")
        assert await is_released(runtime_of(node), runtime_of(node).reader.limits, mine)
        crash.log.trim(0, 1)
        assert not await is_released(runtime_of(node), runtime_of(node).reader.limits, mine), "its state is gone too"

        async def from_checkpoint(process_id: str, **how: Any) -> Any:
            return checkpoint

        monkeypatch.setattr(runtime_of(node), "recover", from_checkpoint)
        assert await is_released(runtime_of(node), runtime_of(node).reader.limits, mine), (
            "a finished process keeps its calls for a while"
        )
        checkpoint = replace(checkpoint, state=checkpoint.state.without_content())
        assert not await is_released(runtime_of(node), runtime_of(node).reader.limits, mine)


async def test_a_budget_that_refuses_an_effect_gives_its_key_back(node: Node, ledger: Ledger) -> None:
    """Nothing was begun; once the budget is raised it asks anew."""
    async with node.open("p") as process:
        await process.set_budget({"usd": "1"})
        with pytest.raises(BudgetExceeded):
            await process.effect("pay", ledger.pay, 5, business_key=KEY, estimate={"usd": "2"})
        assert await holder(node) is None
        assert await pays(node, ledger) == "paid 6"


async def test_a_fenced_owners_word_that_nothing_was_done_gives_the_key_back(node: Node, ledger: Ledger) -> None:
    """It is evidence; the next owner settles by it."""

    async def declined_late(amount: int) -> None:
        await other.open("p", take_over=True)
        raise NotDone("declined")

    async with Node.in_memory(runtime_of(node).reader, node_id="second") as other:  # type: ignore[arg-type]
        process = await node.open("p")
        with pytest.raises((Fenced, NotDone)):
            await process.effect("pay", declined_late, 5, business_key=KEY, semantics=ONCE)
            await process.confirm()
    async with Node.in_memory(runtime_of(node).reader, node_id="third") as third:  # type: ignore[arg-type]
        process = await third.open("p", take_over=True)
        with pytest.raises(NotDone):
            await process.effect("pay", ledger.pay, 5, business_key=KEY, semantics=ONCE)
        assert await holder(third) is None
    assert not ledger.calls


@pytest.mark.parametrize("said", ["declined", "refused there"])
async def test_a_dispatchers_word_that_nothing_was_done_gives_the_key_back(
    node: Node, ledger: Ledger, said: str
) -> None:
    """Its call raised NotDone, or its reconciler found that it was refused."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, reconcile=ledger.find, outbox=True))
    ledger.fails = [NotDone("declined") if said == "declined" else ConnectionError("reset")]
    ledger.answers = [Answer.FAILED]
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process:
        with pytest.raises((NotDone, EffectFailed)):
            await process.effect("pay", None, 5, connector="bank", business_key=KEY, semantics=ONCE)
        assert await holder(node, "bank") is None


@asynccontextmanager
async def opened(node: Node, known: Connectors) -> AsyncIterator[Process]:
    process = await node.open("p")
    durable_side(process).effects.connectors = known
    try:
        yield process
    finally:
        durable_side(process).abandon()


async def test_a_call_is_handed_its_business_key_if_it_takes_one(node: Node) -> None:
    """What it is about, as the journal knows it."""

    async def pay(amount: int, *, business_key: str) -> str:
        return f"{amount} for {business_key}"

    async with node.open("p") as process:
        assert await process.effect("pay", pay, 5, business_key="order-4711") == "5 for order-4711"
