"""Budgets over effects, compensations and further attempts: what is held against a limit before each begins."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from open_processes import durable_side
from outside_ledger import Ledger
from seekpoint.producers import Node, Process, Retry, agent
from seekpoint.producers.durable.budgets.budget_checks import raise_budget
from seekpoint.schemas.errors import BudgetExceeded


async def test_an_effects_estimate_is_held_against_the_budget_before_its_intent(node: Node, ledger: Ledger) -> None:
    """Nothing of it is in the journal, and the world is not asked."""
    async with node.open("p") as process:
        await process.set_budget({"usd": "10"})
        await process.effect("pay", ledger.pay, 6, estimate={"usd": "6"})
        with pytest.raises(BudgetExceeded) as caught:
            await process.effect("pay", ledger.pay, 5, estimate={"usd": "11"})
        assert (caught.value.facts["dimension"], caught.value.facts["wanted"]) == ("usd", "11")
        assert list(process.state.calls) == ["budget:1", "pay:1"]
    assert ledger.calls == {"p/pay:1": 1}


async def test_what_is_owed_is_paid_whatever_it_costs(node: Node, ledger: Ledger) -> None:
    """A budget that is used up keeps nobody from taking back what was done."""
    async with node.open("p") as process:
        await process.set_budget({"irreversible_effects": 0, "tool_calls": 1, "wall_s": "0.000001"})
        await process.effect("pay", ledger.pay, 5, compensate=ledger.pay_back)
        node.clock.advance(5)  # type: ignore[attr-defined]  # the tests' own clock
        await process.tool("look", node.clock.sleep, 1)
        with pytest.raises(BudgetExceeded):
            await process.step("more", str, 1)
        await process.compensate()
        assert not process.state.obligations
    assert ledger.taken_back == ["5 of 'paid 5'"]


async def test_each_further_attempt_has_to_fit_too(node: Node) -> None:
    """A tool that fails again and again ends where its budget does; raised, it goes on with the attempt it was at."""
    runs: list[int] = []

    async def flaky() -> None:
        runs.append(1)
        raise ConnectionError("down")

    async with node.open("p") as process:
        await process.set_budget({"tool_calls": 2})
        with pytest.raises(BudgetExceeded):
            await process.tool("look", flaky, retry=Retry(attempts=5, backoff_s=0))
        assert len(runs) == 2
        assert process.state.budget is not None
        assert process.state.budget.spent["tool_calls"] == Decimal(2)
        assert process.state.calls["look:1"].attempt == 2


@agent("asker")
async def asker(process: Process, input: Any) -> Any:
    """One more call than its budget has."""
    await process.set_budget({"tool_calls": 1}, on_exceed="escalate")
    await process.tool("look", str, 1)
    return await process.tool("look", str, 2)


@pytest.mark.parametrize("limit", ["ten", "", "NaN", -5, True, [], 10**30])
async def test_a_yes_to_no_amount_is_no_yes(limit: Any, node: Node) -> None:
    """Nor an error that every later run would raise: the answer is remembered. A person raises the limit."""
    await node.signal("p", "budget:tool_calls", {"approved": True, "limit": limit}, actor="ann")
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await node.run(asker, "p")
    async with node.open("p") as process:
        await raise_budget(durable_side(process), "tool_calls", 2, actor="bob")
    assert await node.run(asker, "p") == "2"


async def test_who_raised_a_limit_too_little_is_asked_again_by_the_next_run(node: Node) -> None:
    """It is another question by then: the answer to the first one is not its."""
    await node.signal("p", "budget:tool_calls", {"approved": True, "limit": 1.5}, actor="ann")
    with pytest.raises(BudgetExceeded):
        await node.run(asker, "p")
    await node.approve("p", "budget:tool_calls", actor="ann", in_advance=True)
    assert await node.run(asker, "p") == "2"


async def test_each_attempt_that_does_not_fit_is_a_question_of_its_own(node: Node) -> None:
    """A call that is tried again asks again, where its budget is used up again."""

    async def flaky() -> None:
        raise ConnectionError("down")

    async with node.open("p") as process:
        await process.set_budget({"tool_calls": 1}, on_exceed="escalate")
        for _ in range(2):
            await node.approve("p", "budget:tool_calls", actor="ann", in_advance=True)
        with pytest.raises(ConnectionError):
            await process.tool("look", flaky, retry=Retry(attempts=3, backoff_s=0))
        gates = [call for call in process.state.calls.values() if call.kind == "gate"]
        assert [call.status for call in gates] == ["succeeded", "succeeded"]
