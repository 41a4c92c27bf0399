"""Budgets over effects, compensations and further attempts: what is held against a limit before each begins."""

from __future__ import annotations

from decimal import Decimal

import pytest

from outside_ledger import Ledger
from seekpoint.producers import Node, Retry
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
