"""What calls cost is counted without a budget too, and a step can say what it used."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from seekpoint.producers import Node, Prices, Process, Retry, Usage, agent, step
from seekpoint.schemas.errors import BudgetExceeded, InvalidSetting, LimitExceeded, UnserializableValue
from seekpoint.schemas.state.process_state import State

_ANSWER = {"model": "small", "usage": {"input_tokens": 1000, "output_tokens": 0}}


def _spent(state: State) -> dict[str, str]:
    assert state.budget is not None
    return {name: amount for name, amount in state.budget.spent_texts().items() if name != "wall_s"}


async def test_a_run_without_a_budget_counts_what_its_calls_record(node: Node) -> None:
    """No limit is checked, and whoever lists costs sees it, while it runs and when it has finished."""
    node.prices = Prices({"small": {"input": "10", "output": "10"}})

    @agent("plain")
    async def plain(process: Process, input: Any) -> Any:
        await process.step("look", str, 1)
        assert process.state.budget is None, "a step that uses nothing is not counted"
        await process.decide("plan", lambda _: _ANSWER, {"model": "small"}, estimate={"usd": "99"})
        return await process.tool("send", str, 1)

    await node.run(plain, "p")
    state = (await node.recover("p")).state
    assert _spent(state) == {"usd": "0.01", "tokens": "1000", "model_calls": "1", "tool_calls": "1"}


async def test_a_budget_that_is_set_later_counts_what_was_used_before(node: Node) -> None:
    """What all calls of a process used is held against its limits."""
    async with node.open("p") as process:
        await process.decide("plan", lambda _: _ANSWER, {})
        await process.set_budget({"model_calls": 1})
        with pytest.raises(BudgetExceeded):
            await process.decide("plan", lambda _: _ANSWER, {})


@pytest.mark.parametrize(
    ("usage", "spent"),
    [
        ({"usd": "0.02", "tokens": 7}, {"usd": "0.02", "tokens": "7"}),
        (Usage(input_tokens=3, output_tokens=4), {"tokens": "7"}),
        (lambda answer: {"usd": answer["price"]}, {"usd": "0.5"}),
        (lambda answer: None, {}),
        (lambda answer: {"euros": 1}, {}),  # paid for: it is not called again
    ],
)
async def test_a_step_charges_what_it_says_that_it_used(usage: Any, spent: dict[str, str], node: Node) -> None:
    """As amounts by dimension, as tokens, or by a function of its result; a tool adds its own call."""
    async with node.open("p") as process:
        await process.set_budget()
        await process.step("rent", lambda: {"price": "0.5"}, usage=usage)
        assert _spent(process.state) == spent
        await process.tool("rent", lambda: {"price": "0"}, usage={"usd": "1"})
        assert _spent(process.state)["tool_calls"] == "1"


async def test_a_step_that_used_up_a_budget_is_the_last_one(node: Node) -> None:
    """It may exceed the limit, since nobody knew what it would use; a function made a step says it too."""

    @step(usage={"usd": "3"})
    async def rent(hours: int) -> int:
        return hours

    async with node.open("p") as process:
        await process.set_budget({"usd": "2"})
        assert await rent(process, 1) == 1
        with pytest.raises(BudgetExceeded):
            await rent(process, 2)
        assert process.state.budget is not None
        assert process.state.budget.spent["usd"] == Decimal(3)


@pytest.mark.parametrize("result", ["x" * 2_000_000, object()])
async def test_only_the_attempt_that_returned_is_charged_also_if_its_result_is_refused(
    result: object, node: Node
) -> None:
    """It was paid for; an attempt that raised says nothing."""
    tries = iter([ConnectionError("down"), None])

    def flaky() -> object:
        if (error := next(tries)) is not None:
            raise error
        return result

    async with node.open("p") as process:
        await process.set_budget()
        with pytest.raises((LimitExceeded, UnserializableValue)):
            await process.step("rent", flaky, usage={"usd": "1"}, retry=Retry(attempts=2, backoff_s=0))
        assert _spent(process.state) == {"usd": "1"}


async def test_a_usage_that_is_none_is_refused_before_the_call(node: Node) -> None:
    """An unknown dimension, or what is no usage at all."""
    async with node.open("p") as process:
        for usage in ({"euros": 1}, "much", 7):
            with pytest.raises(InvalidSetting):
                await process.step("rent", str, 1, usage=usage)  # type: ignore[arg-type]
        assert not process.state.calls
