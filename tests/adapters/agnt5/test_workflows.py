"""``DurableWorkflows`` executes workflows of the SDK: after an interruption they go on where they were."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from agnt5 import FunctionContext, WorkflowContext, current_activation, function, workflow
from agnt5.exceptions import ActivationError, ActivationErrorCode, WaitingForUserInputException
from agnt5.types import BackoffPolicy, RetryPolicy

from agnt5_runs import PROCESS, giving, once, statuses, until_asleep
from seekpoint import MemoryLog, Node, VirtualClock
from seekpoint.adapters.agnt5 import DurableWorkflows
from seekpoint.errors import AgentMismatch, InvalidOption, Refused, UnserializableValue

Code = ActivationErrorCode


async def test_steps_are_executed_once_and_the_run_goes_on_after_a_failure(node: Node) -> None:
    """What is completed is not executed again: functions and callables. The second time it does not fail."""
    ran: Counter[str] = Counter()

    @function
    async def price(ctx: FunctionContext, article: str) -> float:
        ran["price"] += 1
        assert current_activation() is not None
        return 12.5

    @workflow
    async def order(ctx: WorkflowContext, article: str) -> str:
        cost: float = await ctx.step(price, article)

        async def pack() -> dict[str, int]:
            ran["pack"] += 1
            return {"boxes": 2}

        packed: dict[str, int] = await ctx.step("pack", pack)
        if ran["order"] == 0:
            ran["order"] += 1
            raise ConnectionError("the network is gone")
        return f"{article}: {cost}, {packed['boxes']} boxes"

    with pytest.raises(ConnectionError):
        await once(node, order, {"article": "shoes"})
    state = (await node.recover(PROCESS)).state
    assert state.lifecycle == "failed"
    assert state.failure is not None
    assert "the network is gone" in state.failure.message
    assert await once(node, order) == "shoes: 12.5, 2 boxes"
    assert await once(node, "order", {"article": "shoes"}) == "shoes: 12.5, 2 boxes"
    assert ran == {"price": 1, "pack": 1, "order": 1}
    assert await statuses(node) == {"step:price:0": "COMPLETED", "step:pack:1": "COMPLETED"}


async def test_a_function_is_tried_again_as_its_policy_says(node: Node) -> None:
    """Each attempt is an attempt of the activation."""
    attempts: list[int] = []

    @function(
        retries=RetryPolicy(max_attempts=3, initial_interval_ms=1, max_interval_ms=1),
        backoff=BackoffPolicy(multiplier=1.0),
    )
    async def flaky(ctx: FunctionContext) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise ConnectionError("once more")
        return "done"

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        result: str = await ctx.step(flaky)
        return result

    assert await once(node, order) == "done"
    assert attempts == [0, 1, 2]


async def test_a_failure_that_the_code_has_caught_is_caught_again(node: Node) -> None:
    """So the code goes the same way after a sleep, and in a later program."""
    ran: Counter[str] = Counter()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        async def pay() -> None:
            ran["pay"] += 1
            raise ValueError("no money")

        try:
            await ctx.step("pay", pay)
        except ValueError as exc:
            said = str(exc)
        await ctx.sleep(60, name="think")
        ran["order"] += 1
        if ran["order"] == 1:
            raise ConnectionError
        return said

    with pytest.raises(ConnectionError):
        await once(node, order)
    assert await once(node, order) == "no money"
    assert ran == {"pay": 1, "order": 2}


async def test_a_sleep_outlives_the_program() -> None:
    """It ends when it was to end when it began; a sleep that is over is not slept again."""
    clock, log = VirtualClock(skips=False), MemoryLog()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        await ctx.sleep(3_600, name="first")
        await ctx.sleep(5, name="second")
        return "awake"

    async with Node.in_memory(log, clock=clock) as one:
        began = clock.now_us()
        sleeping = asyncio.create_task(once(one, order))
        await until_asleep(one)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
    async with Node.in_memory(log, clock=clock) as other:
        waking = asyncio.create_task(once(other, order))
        clock.advance(3_000)
        async with asyncio.timeout(30):
            while not waking.done():
                clock.advance(1)
                await asyncio.sleep(0.001)
        assert waking.result() == "awake"
    assert 3_605 <= (clock.now_us() - began) / 1_000_000 < 3_700


async def test_branches_go_on_while_one_of_them_sleeps(node: Node) -> None:
    """No step is executed twice because another branch sleeps; two sleeps at once are not one after the other."""
    ran: Counter[str] = Counter()

    @workflow
    async def order(ctx: WorkflowContext) -> list[Any]:
        async def slow() -> str:
            ran["slow"] += 1
            await asyncio.sleep(0.05)
            return "slow"

        async def nap(name: str) -> str:
            await ctx.sleep(1_000, name=name)
            return name

        results = await ctx.parallel(ctx.step("slow", slow, key="slow"), nap("a"), nap("b"))
        return list(results)

    began = node.clock.now_us()
    assert await once(node, order) == ["slow", "a", "b"]
    assert ran == {"slow": 1}
    assert (node.clock.now_us() - began) / 1_000_000 < 1_900


async def test_a_run_waits_for_a_person(node: Node) -> None:
    """It is given up until somebody answers; then it goes on, with each answer in its place."""

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        size = await ctx.wait_for_user("Which size?")
        colour = await ctx.wait_for_user("Which colour?")
        return f"{size} {colour}"

    with pytest.raises(WaitingForUserInputException) as first:
        await once(node, order)
    assert first.value.question == "Which size?"
    assert (await node.recover(PROCESS)).state.lifecycle == "awaiting"
    async with DurableWorkflows(node) as workflows:
        await workflows.answer("order-17", "43")
        with pytest.raises(WaitingForUserInputException) as second:
            await workflows.run(order, "order-17")
        assert second.value.question == "Which colour?"
        await workflows.answer("order-17", "red")
        with pytest.raises(Refused):
            await workflows.answer("order-17", "blue")
        assert await workflows.run(order, "order-17") == "43 red"


async def test_a_run_belongs_to_its_workflow_its_input_and_its_version(node: Node) -> None:
    """Others are refused, also once it is finished; a version that is another one by its first activation."""
    failures = [ConnectionError(), ConnectionError()]

    @workflow
    async def order(ctx: WorkflowContext, article: str) -> str:
        await ctx.step("look", giving(article))
        if failures:
            raise failures.pop()
        return article

    @workflow
    async def refund(ctx: WorkflowContext, article: str) -> str:
        return article

    with pytest.raises(ConnectionError):
        await once(node, order, {"article": "shoes"})
    with pytest.raises(AgentMismatch):
        await once(node, refund)
    with pytest.raises(AgentMismatch):
        await once(node, order, {"article": "hats"})
    with pytest.raises(ActivationError) as changed:
        await once(node, order, version="2")
    assert changed.value.code is Code.NON_DETERMINISTIC_REPLAY
    failures.clear()
    assert await once(node, order) == "shoes"
    with pytest.raises(AgentMismatch):
        await once(node, order, {"article": "hats"})


async def test_a_dispatch_that_has_lost_its_run_does_not_take_it_back() -> None:
    """Also with ``take_over``, and if its code catches the refusal: whatever it begins is refused from then on."""
    log, paid, refused = MemoryLog(), Counter[str](), list[ActivationErrorCode]()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        await ctx.step("check", giving(1))
        if paid["dispatches"] == 0:
            paid["dispatches"] += 1
            owner = await other.activations.run("default", "order-17")
            for name in ("first", "second", "third", "fourth"):
                with pytest.raises(ActivationError) as caught:
                    await ctx.step(name, giving(1, paid))
                refused.append(caught.value.code)
            await owner.process.update("note", "it still owns the run")
            await owner.process.confirm()
        return "done"

    async with (
        Node.in_memory(log) as one, Node.in_memory(log) as two,
        DurableWorkflows(one, take_over=True) as mine, DurableWorkflows(two, take_over=True) as other,
    ):  # fmt: skip
        with pytest.raises(ActivationError, match="STALE_AUTHORITY"):
            await mine.run(order, "order-17")
        assert refused == [Code.STALE_AUTHORITY] * 4
        assert paid["last"] == 0
        await other.activations.release("default", "order-17")
        assert await mine.run(order, "order-17") == "done"  # a new dispatch may


async def test_a_former_owner_of_an_agents_process_takes_no_run_over() -> None:
    """Whoever owns the agent's process may take the run over, and nobody else."""
    log, ran = MemoryLog(), Counter[str]()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        result: str = await ctx.step("pay", giving("paid", ran))
        return result

    async with Node.in_memory(log) as one, Node.in_memory(log) as two:
        former = await one.open("agent-1")
        owner = await two.open("agent-1", take_over=True)
        async with DurableWorkflows(former) as workflows:
            with pytest.raises(ActivationError, match="another owner has claimed"):
                await workflows.run(order, "order-17")
        assert ran["last"] == 0
        async with DurableWorkflows(owner) as workflows:
            assert await workflows.run(order, "order-17") == "paid"


async def test_what_is_no_workflow_is_refused_with_what_to_do(node: Node) -> None:
    """A name that nobody registered, and a function without the decorator."""

    async def plain(ctx: WorkflowContext) -> None: ...

    for wrong in ("nobody", plain):
        with pytest.raises(InvalidOption, match="workflow"):
            await once(node, wrong)


async def test_a_result_that_is_no_value_fails_the_run(node: Node) -> None:
    """The error says what; the steps are kept."""

    @workflow
    async def order(ctx: WorkflowContext) -> object:
        await ctx.step("look", giving(1))
        return object()

    with pytest.raises(UnserializableValue):
        await once(node, order)
    assert await statuses(node) == {"step:look:0": "COMPLETED"}
