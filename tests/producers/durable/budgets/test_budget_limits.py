"""The limits of a budget: what counts against each, what is refused where one is used up, and who may raise it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from counting_model import REQUEST, Model, bodies
from cut_offs import cut_here, cut_off
from open_processes import durable_side
from seekpoint.producers import Node, Process, VirtualClock, agent, check_replay
from seekpoint.producers.durable.budgets.budget_checks import raise_budget
from seekpoint.producers.durable.decisions.prices import Prices
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import BudgetExceeded
from seekpoint.schemas.log.memory_log import MemoryLog


async def test_a_budget_stops_a_call_before_it_begins() -> None:
    """Nothing is asked, nothing is recorded as the call's failure: once raised, the run goes on with this very call."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.set_budget({"model_calls": 1})
        await process.decide("plan", model, REQUEST)
        with pytest.raises(BudgetExceeded) as caught:
            await process.decide("next", model, REQUEST)
        assert caught.value.facts["dimension"] == "model_calls"
        assert "next:1" not in process.state.calls
    assert len(model.asked) == 1


async def test_a_budget_is_what_recovery_finds() -> None:
    """Spent before a crash is spent after it (ActiveGraph's budget was new after a load); nothing is charged twice."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node:
        node.prices = Prices({"m-1*": {"input": "100000", "output": "0"}})
        async with node.open("p") as process:
            await process.set_budget({"usd": "1.50"})
            await process.decide("plan", model, REQUEST)
    async with Node.in_memory(log) as node:
        node.prices = Prices({"m-1*": {"input": "100000", "output": "0"}})
        async with node.open("p") as process:
            await process.set_budget({"usd": "1.50"})
            await process.decide("plan", model, REQUEST)
            assert process.state.budget is not None
            assert process.state.budget.spent["usd"] == Decimal("1")
            with pytest.raises(BudgetExceeded):
                await process.decide("dear", model, REQUEST, estimate={"usd": "0.51"})
            await process.decide("cheap", model, {**REQUEST, "seed": 7}, estimate={"usd": "0.50"})
            assert process.state.budget.spent["usd"] == Decimal("2")  # what was used counts, whatever was estimated
            assert not process.state.budget.reserved


async def test_two_calls_at_once_do_not_share_what_is_left() -> None:
    """The first one's start reserves; the second sees it before Kafka has answered."""
    model, refused = Model(), asyncio.Event()

    async def slow(request: Any) -> Any:
        await refused.wait()
        return await model(request)

    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tokens": 100})
        first = asyncio.create_task(process.decide("a", slow, REQUEST, estimate={"tokens": 80}))
        await asyncio.sleep(0)
        with pytest.raises(BudgetExceeded):
            await process.decide("b", slow, REQUEST, estimate={"tokens": 80})
        refused.set()
        await first
    assert len(model.asked) == 1


async def test_a_tool_counts_each_attempt() -> None:
    """Three attempts, three calls: the fourth is not made."""
    from seekpoint.producers import Retry

    def fails() -> None:
        raise ValueError("down")

    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tool_calls": 3})
        with pytest.raises(ValueError, match="down"):
            await process.tool("look", fails, retry=Retry(attempts=3, backoff_s=0))
        with pytest.raises(BudgetExceeded):
            await process.tool("again", fails)
        assert process.state.budget is not None
        assert process.state.budget.spent["tool_calls"] == 3


async def test_tools_that_begin_at_once_do_not_share_what_is_left() -> None:
    """``gather`` begins them in one moment: each one's start reserves before the next is admitted."""
    ran: list[int] = []
    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tool_calls": 2})
        ends = await asyncio.gather(*(process.tool("look", ran.append, i) for i in range(5)), return_exceptions=True)
    assert [type(end) for end in ends].count(BudgetExceeded) == 3
    assert sorted(ran) == [0, 1]


async def test_what_is_no_tool_call_begins_where_no_tool_call_is_left() -> None:
    """A limit of one call allows one call, and what follows it; of a model's call it is not known what it costs."""
    model = Model()
    async with Node.in_memory() as node:
        node.prices = Prices({"m-1*": {"input": "100000", "output": "0"}})
        async with node.open("p") as process:
            await process.set_budget({"tool_calls": 1, "usd": "1"})
            await process.tool("look", str, 1)
            assert await process.step("keep", str, 2) == "2"
            await process.decide("plan", model, REQUEST)
            with pytest.raises(BudgetExceeded) as caught:
                await process.decide("more", model, REQUEST)
    assert caught.value.facts["dimension"] == "usd"
    assert len(model.asked) == 1


async def test_a_warning_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """As an entry too, so that a recovered run does not repeat it."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tool_calls": 10}, warn_at="0.5")
        for _ in range(8):
            await process.tool("look", lambda: 1)
        noted = await bodies(node, "p", b.BudgetNoted)
    assert [(one.kind, one.amount, one.limit) for one in noted] == [("warned", "5", "10")]
    assert [line for line in caplog.messages if "tool_calls" in line] == [
        "process p has used 5 of 10 tool_calls (budget of the whole process)"
    ]


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_budget_that_escalates_asks_a_person_once(is_approved: bool) -> None:
    """A yes raises the limit, a no gives the call up and says so; code that runs again behind it does not ask again."""
    log, ran, dies = MemoryLog(), [], [True]

    async def pay() -> str:
        ran.append("pay")
        if dies.pop() if dies else False:
            await cut_here()  # the machine dies in the middle of the call
        return "paid"

    @agent("payer")
    async def payer(process: Process, given: Any) -> Any:
        await process.set_budget({"tool_calls": 1}, on_exceed="escalate")
        await process.tool("look", str, 1)
        return await process.tool("pay", pay)

    async with Node.in_memory(log) as node:
        await (node.approve if is_approved else node.deny)("p", "budget:tool_calls", actor="ann", in_advance=True)
        if is_approved:
            await cut_off(node.run(payer, "p"))
        else:
            with pytest.raises(BudgetExceeded):
                await node.run(payer, "p")
    async with Node.in_memory(log) as node:
        if not is_approved:
            dies.clear()
            async with node.open("p") as process:
                await raise_budget(durable_side(process), "tool_calls", 2, actor="bob")
        assert await node.run(payer, "p") == "paid"
        noted = [one.kind for one in await bodies(node, "p", b.BudgetNoted) if one.kind != "warned"]
        history = [one async for one in node.entries("p")]
    assert noted == ["exceeded", *([] if is_approved else ["refunded"]), "raised"]
    assert ran == ["pay"] * (2 if is_approved else 1)
    assert (await check_replay(payer, history)).divergence is None


async def test_a_budget_of_a_day_is_new_with_the_day(caplog: pytest.LogCaptureFixture) -> None:
    """The UTC day of the process's clock. Each day has a warning of its own."""
    clock = VirtualClock()
    async with Node.in_memory(clock=clock) as node, node.open("p") as process:
        await process.set_budget(a_day={"tool_calls": 1})
        await process.tool("look", str, 1)
        with pytest.raises(BudgetExceeded) as caught:
            await process.tool("look", str, 2, key="again")
        assert caught.value.facts["scope"] == "day"
        await clock.sleep(86_400)
        assert await process.tool("look", str, 3) == "3"
    told = "process p has used 1 of 1 tool_calls (budget of this UTC day)"
    assert [line for line in caplog.messages if "tool_calls" in line] == [told, told]


async def test_a_paused_budget_suspends_the_process() -> None:
    """Not failed: it waits for somebody who raises it."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.transition("starting")
        await process.transition("running")
        await process.set_budget({"tool_calls": 0}, on_exceed="pause")
        with pytest.raises(BudgetExceeded):
            await process.tool("look", lambda: 1)
        await process.update("seen", 1)
        assert process.state.lifecycle == "suspended"


async def test_a_limit_raised_too_little_is_no_yes() -> None:
    """The call is not begun, and nobody is asked a second time for it; a person raises it enough."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"usd": "1"}, on_exceed="escalate")
        await node.approve("p", "budget:usd", actor="ann", in_advance=True)
        await node.signal("p", "budget:usd", {"approved": True, "limit": "1.5"}, actor="bob")
        await process.decide("small", Model(), REQUEST, estimate={"usd": "1.2"})  # raised to what it needs
        with pytest.raises(BudgetExceeded):
            await process.decide("big", Model(), {**REQUEST, "seed": 2}, estimate={"usd": "9"})
        assert process.state.budget is not None
        assert process.state.budget.limits["usd"] == Decimal("1.5")


async def test_time_spent_in_calls_is_bounded() -> None:
    """``wall_s``: what the first call took leaves nothing for the next."""
    clock = VirtualClock()

    async def slow() -> None:
        await clock.sleep(20)

    async with Node.in_memory(clock=clock) as node, node.open("p") as process:
        await process.set_budget({"wall_s": 10})
        await process.step("slow", slow)
        with pytest.raises(BudgetExceeded) as caught:
            await process.step("next", slow)
        assert caught.value.facts["dimension"] == "wall_s"


async def test_irreversible_effects_are_counted() -> None:
    """An at-most-once effect without a compensation; one that certainly did not happen gives its place back."""

    async def send(amount: int) -> str:
        return "sent"

    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"irreversible_effects": 1})
        assert await process.effect("send", send, 1, semantics="at_most_once") == "sent"
        with pytest.raises(BudgetExceeded):
            await process.effect("send", send, 2, semantics="at_most_once")
        assert await process.effect("again", send, 3) == "sent"
