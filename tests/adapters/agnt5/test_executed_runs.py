"""A run is executed by one task of one node at a time, until it is over or cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from agnt5 import WorkflowContext, workflow
from agnt5.activation import (
    ActivationClient,
    ChildJoinPolicy,
    child_activation_request_from_context,
)
from agnt5.exceptions import ActivationError, ActivationErrorCode

from agnt5_runs import PROCESS, giving, once, statuses, until_asleep
from seekpoint import Client, MemoryLog, Node, Process, Worker, agent
from seekpoint.adapters.agnt5 import DurableWorkflows

Code = ActivationErrorCode


async def test_a_run_is_executed_by_one_node_at_a_time() -> None:
    """The second is CONTENDED; a node that takes it over makes the first one's next call STALE_AUTHORITY."""
    log, ran = MemoryLog(), Counter[str]()
    begun, may_end = asyncio.Event(), asyncio.Event()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        async def slow() -> str:
            ran["slow"] += 1
            if ran["slow"] == 2:  # the other one
                may_end.set()
            begun.set()
            await may_end.wait()
            return "slow"

        await ctx.step("slow", slow)
        result: str = await ctx.step("last", giving("done", ran))
        return result

    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        first = asyncio.create_task(once(one, order))
        await begun.wait()
        with pytest.raises(ActivationError) as contended:
            await once(other, order)
        assert contended.value.code is Code.CONTENDED
        assert await once(other, order, take_over=True) == "done"
        with pytest.raises(ActivationError) as stale:
            await first
        assert stale.value.code is Code.STALE_AUTHORITY
    assert ran == {"slow": 2, "last": 1}


async def test_two_tasks_of_a_program_do_not_execute_one_run(node: Node) -> None:
    """The second is CONTENDED, and so is an answer meanwhile; the first goes on."""
    ran: Counter[str] = Counter()
    begun, may_end = asyncio.Event(), asyncio.Event()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        async def slow() -> str:
            ran["slow"] += 1
            begun.set()
            await may_end.wait()
            return "done"

        result: str = await ctx.step("slow", slow)
        return result

    async with DurableWorkflows(node) as workflows:
        first = asyncio.create_task(workflows.run(order, "order-17"))
        await begun.wait()
        for other in (workflows.run(order, "order-17"), workflows.answer("order-17", "yes")):
            with pytest.raises(ActivationError) as contended:
                await other
            assert contended.value.code is Code.CONTENDED
        may_end.set()
        assert await first == "done"
    assert ran == {"slow": 1}


async def test_a_cancelled_run_stops_at_its_next_step(node: Node) -> None:
    """``node.cancel`` and ``seekpoint cancel`` name its process."""

    @workflow
    async def order(ctx: WorkflowContext) -> None:
        for number in range(10_000):
            await ctx.step("turn", giving(None), key=str(number))
            if number == 3:
                await node.cancel(PROCESS, "changed her mind")

    with pytest.raises(ActivationError, match="changed her mind") as cancelled:
        await once(node, order)
    assert cancelled.value.code is Code.CANCELLED


async def test_a_cancelled_run_does_not_sleep_on() -> None:
    """It ends at once, not when its timer is due."""

    @workflow
    async def order(ctx: WorkflowContext) -> None:
        await ctx.sleep(86_400, name="a day")

    async with Node.in_memory() as node:
        sleeping = asyncio.create_task(once(node, order))
        await until_asleep(node)
        await node.cancel(PROCESS, "changed her mind")
        with pytest.raises(ActivationError) as cancelled:
            await asyncio.wait_for(sleeping, 60)
        assert cancelled.value.code is Code.CANCELLED
        assert await statuses(node) == {"sleep:a day": "CANCELLED"}


@pytest.mark.parametrize("policy", list(ChildJoinPolicy))
async def test_a_run_does_not_end_while_a_child_that_it_needs_is_open(node: Node, policy: ChildJoinPolicy) -> None:
    """A detached child does not hold it up."""

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        request = child_activation_request_from_context(
            ctx, child_name="helper", stable_key="child:helper:0", input_value=None, join_policy=policy
        )
        await ActivationClient(workflows.activations).begin(request)
        return "done"

    async with DurableWorkflows(node) as workflows:
        if policy is ChildJoinPolicy.DETACHED:
            assert await workflows.run(order, "order-17") == "done"
        else:
            with pytest.raises(ActivationError) as refused:
                await workflows.run(order, "order-17")
            assert refused.value.code is Code.REQUIRED_CHILD_UNRESOLVED


async def test_a_worker_executes_workflows(node: Node) -> None:
    """An agent that runs a workflow is submitted, taken over and listed as all others."""

    @workflow
    async def order(ctx: WorkflowContext, article: str) -> str:
        result: str = await ctx.step("look", giving(f"seen {article}"))
        return result

    @agent("order")
    async def run_order(process: Process, article: str) -> str:
        async with DurableWorkflows(process) as workflows:
            return str(await workflows.run(order, process.process_id, {"article": article}))

    log = MemoryLog()
    async with Worker.in_memory([run_order], log) as _, Client.in_memory(log) as client:
        submitted = await client.submit(run_order, "order-18", "hats")
        assert await submitted.result(60) == "seen hats"
