"""A budget covers a tree: what children may use, what is kept for them, and who is charged."""

from __future__ import annotations

from typing import Any

import pytest

from entry_examples import claim, own
from folding import folded
from open_processes import durable_side
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.durable.budgets.budget_checks import raise_budget
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import BudgetExceeded, InvalidSetting
from seekpoint.schemas.state.budget_sums import Budget


@agent("spender")
async def spender(process: Process, amounts: list[str]) -> int:
    """One step for each amount, which costs it."""
    for amount in amounts:
        await process.step("buy", str, usage={"usd": amount})
    return len(amounts)


@agent("lavish")
async def lavish(process: Process, amounts: list[str]) -> int:
    """Sets a budget of its own, far above what its parent has."""
    await process.set_budget({"usd": "1000"})
    for amount in amounts:
        await process.step("buy", str, usage={"usd": amount})
    return len(amounts)


async def _budget(node: Node, process_id: str) -> Budget:
    budget = (await node.recover(process_id)).state.budget
    assert budget is not None
    return budget


def _texts(amounts: Any) -> dict[str, str]:
    return {name: format(amount, "f") for name, amount in amounts.items() if name != "wall_s"}


@pytest.mark.parametrize("child", [spender, lavish])
async def test_a_child_cannot_use_more_than_its_parent_has_left(child: Any, node: Node) -> None:
    """Whatever budget its code sets. Once a person raised its limit, the tree goes on, and nothing is bought twice."""

    @agent("parent")
    async def parent(process: Process, input: Any) -> Any:
        await process.set_budget({"usd": "5"})
        await process.step("buy", str, usage={"usd": "3"})
        return await process.spawn(child, "p.1", ["1", "1", "1"]).result()

    for _ in range(2):
        with pytest.raises(BudgetExceeded) as caught:
            await node.run(parent, "p")
        assert caught.value.facts["process_id"] == "p.1"
    async with node.open("p.1") as process:
        await raise_budget(durable_side(process), "usd", 3, actor="ann")
    assert await node.run(parent, "p") == 3
    budget = await _budget(node, "p")
    assert (_texts(budget.spent), _texts(budget.by_children)) == ({"usd": "3"}, {"usd": "3"})


def test_what_a_person_grants_a_child_holds_for_limits_that_its_code_sets_afterwards() -> None:
    """A raised limit is the new grant, not none."""
    raised = b.BudgetNoted("raised", "usd", "run", limit="3")
    state = folded(
        claim(1),
        own(1, b.AgentStarted("lavish", limits='{"usd":"2"}')),
        own(2, raised),
        own(3, b.BudgetSet('{"usd":"1000"}')),
    )
    assert state.budget is not None
    assert _texts(state.budget.limits) == {"usd": "3"}


async def test_a_budget_for_a_child_is_kept_until_it_ends(node: Node) -> None:
    """What it did not use is free again; its spending counts in the list of costs once, as its own."""

    @agent("parent")
    async def parent(process: Process, input: Any) -> Any:
        await process.set_budget({"usd": "5"})
        child = process.spawn(spender, "p.1", ["1"], budget={"usd": "4"})
        late = process.spawn(spender, "p.2", [], budget={"usd": "2"})
        with pytest.raises(BudgetExceeded):
            await late.result()
        await child.result()
        budget = process.state.budget
        assert budget is not None
        assert not budget.reserved
        return await process.spawn(spender, "p.3", ["1", "1"], budget={"usd": "4"}).result()

    with pytest.raises(BudgetExceeded):  # the refused child is one that the run waits for
        await node.run(parent, "p")
    budget = await _budget(node, "p")
    assert (_texts(budget.spent), _texts(budget.by_children)) == ({}, {"usd": "3"})
    assert _texts((await _budget(node, "p.1")).granted) == {"usd": "4"}
    assert (await node.recover("p.2", missing_ok=True)).state.epoch == 0


async def test_children_of_children_are_charged_to_each_above_them(node: Node) -> None:
    """A parent without limits of its own passes on what its parent left it."""

    @agent("middle")
    async def middle(process: Process, input: Any) -> Any:
        await process.step("buy", str, usage={"usd": "1"})
        return await process.spawn(spender, "p.1.1", ["2"]).result()

    @agent("parent")
    async def parent(process: Process, input: Any) -> Any:
        await process.set_budget({"usd": "9"})
        await process.spawn(middle, "p.1").result()
        return await process.step("buy", str, usage={"usd": "1"})

    await node.run(parent, "p")
    budgets = [await _budget(node, process_id) for process_id in ("p", "p.1", "p.1.1")]
    assert [_texts(one.limits) for one in budgets] == [{"usd": "9"}, {"usd": "9"}, {"usd": "8"}]
    assert [_texts(one.spent) for one in budgets] == [{"usd": "1"}, {"usd": "1"}, {"usd": "2"}]
    assert [_texts(one.by_children) for one in budgets] == [{"usd": "3"}, {"usd": "2"}, {}]


async def test_a_child_that_is_tried_again_is_charged_for_what_it_used_since(node: Node) -> None:
    """What its first end charged is not charged again."""
    falls = iter([True])

    @agent("fragile")
    async def fragile(process: Process, input: Any) -> Any:
        await process.step("buy", str, usage={"usd": "1"})
        if next(falls, False):
            raise ValueError("once")
        return await process.step("buy", str, usage={"usd": "2"})

    @agent("parent")
    async def parent(process: Process, input: Any) -> Any:
        await process.set_budget({"usd": "9"})
        return await process.spawn(fragile, "p.1", budget={"usd": "5"}).result()

    with pytest.raises(ValueError, match="once"):
        await node.run(parent, "p")
    assert _texts((await _budget(node, "p")).by_children) == {"usd": "1"}
    await node.run(parent, "p", retry_failed=True)
    assert _texts((await _budget(node, "p")).by_children) == {"usd": "3"}


async def test_a_budget_of_a_child_limits_it_where_its_parent_has_none(node: Node) -> None:
    """One that is no budget is refused before anything is written."""

    @agent("parent")
    async def parent(process: Process, input: Any) -> Any:
        with pytest.raises(InvalidSetting):
            process.spawn(spender, "p.0", [], budget={"euros": 1})
        return await process.spawn(spender, "p.1", ["1", "1", "1"], budget={"usd": "2"}).result()

    with pytest.raises(BudgetExceeded) as caught:
        await node.run(parent, "p")
    assert caught.value.facts["process_id"] == "p.1"
