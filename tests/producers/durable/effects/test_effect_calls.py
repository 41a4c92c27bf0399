"""Effects on a process in memory: what is called how often, and what the journal says. An outside ledger counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cut_offs import cut_here, cut_off
from effect_owners import call_of, die_in_call
from open_processes import durable_side
from outside_ledger import Ledger
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.durable.budgets.budget_checks import raise_budget
from seekpoint.producers.durable.effects.connectors import Connector, Connectors, NotDone
from seekpoint.producers.durable.effects.effect_functions import effect
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import (
    BudgetExceeded,
    EffectUnknown,
    Refused,
    ReplayDivergence,
    UnknownConnector,
    UnserializableValue,
)

ONCE = Effect.AT_MOST_ONCE
QUICK = Retry(attempts=3, backoff_s=0.0, jitter=0.0)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


# --- the plain way ----------------------------------------------------------------------------------------------------
async def test_an_effect_is_called_once_and_remembered(node: Node, ledger: Ledger) -> None:
    """Intent, call with the key, outcome; a second run of the code is answered from the journal."""
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE) == "paid 5"
        call = call_of(process)
        assert (call.status, call.attempt, call.output) == ("succeeded", 1, '"paid 5"')
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_the_intent_is_in_the_log_before_the_call(node: Node) -> None:
    """When the call begins, the intent is applied by whoever folds the log."""
    seen: list[str] = []

    async def look(idempotency_key: str) -> None:
        state = (await node.recover("p")).state
        seen.append(f"{state.calls['pay:1'].status} {idempotency_key}")

    async with node.open("p") as process:
        await process.effect("pay", look)
    assert seen == ["pending p/pay:1"]


async def test_a_plain_function_is_called_too_and_needs_no_key(node: Node) -> None:
    """In a thread; a callable is handed the key only if it takes it."""
    async with node.open("p") as process:
        assert await process.effect("add", lambda a, b: a + b, 2, b=3) == 5
        with pytest.raises(Refused, match="something to call"):
            await process.effect("nothing")


async def test_a_function_can_be_an_effect_wherever_it_is_called(node: Node) -> None:
    """``@effect`` says how, the call says on what."""
    keys: list[str] = []

    @effect(semantics=ONCE, retry=QUICK)
    async def refund(amount: int, *, idempotency_key: str) -> int:
        keys.append(idempotency_key)
        return amount

    async with node.open("p") as process:
        assert await refund(process, 5) == 5
        assert await refund.with_options(key="second", business_key="order-1")(process, 7) == 7
        assert call_of(process, "second").facts["semantics"] == "at_most_once"
    assert keys == ["p/refund:1", "p/second"]


async def test_a_failure_comes_back_as_it_was(node: Node, ledger: Ledger) -> None:
    """An idempotent call that raises to its last attempt fails, with the same class on replay."""
    ledger.fails = [KeyError("no such order")]
    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(KeyError, match="no such order"):
                await process.effect("pay", ledger.pay, 5)
    assert ledger.calls == {"p/pay:1": 1}


async def test_an_idempotent_call_is_tried_again_with_the_same_key(node: Node, ledger: Ledger) -> None:
    """Each attempt is an intent of its own."""
    ledger.fails = [ConnectionError("gone"), TimeoutError()]
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5, retry=QUICK) == "paid 5"
        assert call_of(process).attempt == 3
    assert ledger.calls == {"p/pay:1": 3}


async def test_an_output_that_cannot_be_journaled_makes_no_failure_of_what_was_done(node: Node) -> None:
    """It succeeded; the caller is told, this time and on replay, that its output is not to be had."""
    called = 0

    def odd() -> object:
        nonlocal called
        called += 1
        return object()

    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(UnserializableValue):
                await process.effect("pay", odd, semantics=ONCE)
            assert call_of(process).status == "succeeded"
    assert called == 1


async def test_an_unknown_connector_says_what_to_register_and_calls_nothing(node: Node, ledger: Ledger) -> None:
    """On the first run and on a resume; a settled effect does not need it."""
    async with node.open("p") as process:
        durable_side(process).effects.connectors = Connectors()
        with pytest.raises(UnknownConnector, match="bank"):
            await process.effect("pay", None, 5, connector="bank")
        assert "pay:1" not in process.state.calls
    known = Connectors()
    known.register(Connector("bank", ledger.pay))
    async with node.open("p") as process:
        durable_side(process).effects.connectors = known
        assert await process.effect("pay", None, 5, connector="bank") == "paid 5"
    async with node.open("p") as process:
        durable_side(process).effects.connectors = Connectors()
        assert await process.effect("pay", None, 5, connector="bank") == "paid 5"


# --- what our own call says -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("failure", [ConnectionError("reset"), TimeoutError("slow"), ValueError("odd")])
async def test_an_at_most_once_call_that_raises_is_in_doubt(node: Node, ledger: Ledger, failure: Exception) -> None:
    """What raised may have been done all the same; the cause is kept."""
    ledger.fails = [failure]
    async with node.open("p") as process:
        with pytest.raises(EffectUnknown) as caught:
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, retry=QUICK)
        assert caught.value.__cause__ is failure
        assert call_of(process).status == "unknown"
    assert ledger.calls == {"p/pay:1": 1}


@pytest.mark.parametrize("failure", [NotDone("declined"), ValueError("declined")])
async def test_an_at_most_once_call_that_says_it_did_nothing_has_failed(
    node: Node, ledger: Ledger, failure: Exception
) -> None:
    """NotDone, and what the retry policy calls final."""
    ledger.fails = [failure]
    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(type(failure), match="declined"):
                await process.effect("pay", ledger.pay, 5, semantics=ONCE, retry=Retry(non_retryable=(ValueError,)))
            assert call_of(process).status == "failed"
    assert ledger.calls == {"p/pay:1": 1}


async def test_after_our_own_call_raised_absent_means_failed(node: Node, ledger: Ledger) -> None:
    """That call has ended, so what is not there will not come: the agent gets what it raised."""
    ledger.fails, ledger.answers = [ConnectionError("reset")], [Answer.ABSENT]
    async with node.open("p") as process:
        with pytest.raises(ConnectionError, match="reset"):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find)
        assert call_of(process).status == "failed"


async def test_a_call_that_times_out_may_land_yet(node: Node, ledger: Ledger) -> None:
    """Not even ABSENT says that it will not."""
    ledger.gate = asyncio.Event()
    ledger.answers = [Answer.ABSENT]
    async with node.open("p") as process:
        with pytest.raises(EffectUnknown):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, timeout=0.01, reconcile=ledger.find)
        assert call_of(process).status == "unknown"


# --- rewind and fork --------------------------------------------------------------------------------------------------
async def test_a_budget_that_is_used_up_inside_an_effect_is_no_failure_of_it(node: Node) -> None:
    """As with a step: it stays in doubt, and goes on once the budget is raised."""

    @agent("bounded")
    async def bounded(process: Process, input: Any) -> Any:
        async def pay() -> Any:
            await process.tool("check", str, 1)
            return await process.tool("charge", str, 2)

        await process.set_budget({"tool_calls": 1})
        return await process.effect("pay", pay)

    with pytest.raises(BudgetExceeded):
        await node.run(bounded, "p")
    assert (await node.recover("p")).state.calls["pay:1"].status == "pending"
    async with node.open("p") as process:
        await raise_budget(durable_side(process), "tool_calls", 2)
    assert await node.run(bounded, "p") == "2"


async def test_code_that_diverges_inside_an_effect_is_no_failure_of_it(node: Node) -> None:
    """The code that made the history still goes on with it: a failure would be remembered for ever."""

    def payer(asked: int, *, is_broken: bool = False) -> Agent:
        @agent("payer")
        async def run(process: Process, input: Any) -> Any:
            async def pay() -> str:
                found: str = await process.step("look", str, asked)
                if is_broken:
                    await cut_here()
                return found

            return await process.effect("pay", pay)

        return run

    await cut_off(node.run(payer(1, is_broken=True), "p"))
    with pytest.raises(ReplayDivergence):
        await node.run(payer(2), "p")
    assert await node.run(payer(1), "p") == "1"


async def test_a_rewind_fires_no_effect_again(node: Node, ledger: Ledger) -> None:
    """I11: re-executed, it answers from the record."""
    async with node.open("p") as process:
        await process.update("before", 1)
        await process.effect("pay", ledger.pay, 5)
        await process.rewind(1)
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_rewind_across_turns_fires_no_effect_again(node: Node, ledger: Ledger) -> None:
    """I11: the effects of turns that are over have left the state; the rewind brings them back from the history."""
    ends = [4]

    @agent("payer")
    async def run(process: Process, input: Any) -> None:
        async for turn in process.turns():
            await process.step("look", lambda: None)
            await process.effect("pay", ledger.pay, turn.number)
            if turn.number == ends[0]:
                raise ValueError("stop here")

    with pytest.raises(ValueError, match="stop here"):
        await node.run(run, "p")
    before = (await node.recover("p")).state
    assert (before.turn, list(before.calls)) == (3, ["4/look:1", "4/pay:1"])
    async with node.open("p") as process:
        entries = [one.entry async for one in runtime_of(node).recovery.entries("p", kinds={"turn_ended"})]
        await process.rewind(entries[0].seq or 0)
        assert process.state.turn == 1
    ends[0] = 5
    with pytest.raises(ValueError, match="stop here"):
        await node.run(run, "p")
    assert ledger.calls == {f"p/{number}/pay:1": 1 for number in range(1, 5)} | {"p/5/pay:1~1": 1}


async def test_a_fork_only_looks_at_what_its_parent_left_in_doubt(node: Node, ledger: Ledger) -> None:
    """Never called; a reconciler settles it under the parent's key."""
    await die_in_call(node, ledger)
    async with node.fork("p", "child") as child:
        assert call_of(child).status == "inherited"
        with pytest.raises(EffectUnknown):
            await child.effect("pay", ledger.pay, 5)
        assert call_of(child).status == "inherited"
    async with node.open("child") as child:
        assert await child.effect("pay", ledger.pay, 5, reconcile=ledger.find) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}
    assert ledger.asked == {"p/pay:1": 1}
