"""A task group wraps what its tasks raise: what is no failure of the code is none for being wrapped. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outside_ledger import Ledger
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.durable.effects.effect_resolution import Effect
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import BudgetExceeded, Cancelled, EffectUnknown, Fenced, ReplayDivergence


async def grouped(*calls: Any) -> None:
    """All of them at once, in a group within a group."""
    async with asyncio.TaskGroup() as outer:
        outer.create_task(_grouped(calls))


async def _grouped(calls: Any) -> None:
    async with asyncio.TaskGroup() as inner:
        for call in calls:
            inner.create_task(call)


def payer(ledger: Ledger, then: Any) -> Agent:
    """Pays, with a debt, and then does something in a task group."""

    @agent("payer")
    async def run(process: Process, input: Any) -> str:
        await process.effect("pay", ledger.pay, 5, compensate=ledger.pay_back)
        await grouped(then(process))
        return "done"

    return run


async def test_a_run_that_can_go_on_takes_nothing_back(node: Node, ledger: Ledger) -> None:
    """An effect nobody can tell of: the process is awaiting, and goes on once a person has told."""

    async def reset() -> None:
        raise ConnectionError("reset")

    run = payer(ledger, lambda process: process.effect("mail", reset, semantics=Effect.AT_MOST_ONCE))
    with pytest.raises(EffectUnknown):
        await node.run(run, "p")
    state = (await node.recover("p")).state
    assert (state.lifecycle, len(state.obligations), ledger.taken_back) == ("awaiting", 1, [])
    (mail,) = [key for key in state.calls if "mail" in key]
    await node.verdict("p", mail, "succeeded")
    assert await node.run(run, "p") == "done"


async def test_a_budget_that_is_used_up_takes_nothing_back(node: Node, ledger: Ledger) -> None:
    """Once it is raised the run goes on."""

    async def more(process: Process) -> None:
        await process.set_budget({"tool_calls": 0})
        await process.tool("look", str, 1)

    with pytest.raises(BudgetExceeded):
        await node.run(payer(ledger, more), "p")
    assert not ledger.taken_back


async def test_code_that_diverges_takes_nothing_back(node: Node, ledger: Ledger) -> None:
    """It is the code that is wrong; what was done before it is as it was."""

    looked = asyncio.Event()

    async def stops(process: Process) -> None:
        await process.step("look", str, 1)
        looked.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(node.run(payer(ledger, stops), "p"))
    await asyncio.wait_for(looked.wait(), 60)
    running.cancel()
    await asyncio.wait([running])

    async def changed(process: Process) -> None:
        await process.step("look", str, 2)

    with pytest.raises(ReplayDivergence) as caught:
        await node.run(payer(ledger, changed), "p")
    assert caught.value.facts["difference"]
    assert not ledger.taken_back


async def test_a_failure_of_the_code_still_takes_back(node: Node, ledger: Ledger) -> None:
    """A group of nothing but failures is one."""

    async def fails(process: Process) -> None:
        raise LookupError("nothing there")

    with pytest.raises(ExceptionGroup):
        await node.run(payer(ledger, fails), "p")
    assert ledger.taken_back == ["5 of 'paid 5'"]


async def test_a_fenced_owner_is_told_that_it_is(node: Node, log: MemoryLog, ledger: Ledger) -> None:
    """Whoever runs agents looks for that error, and for no group."""
    entered = asyncio.Event()

    async def waits(process: Process) -> None:
        entered.set()
        await process.gate("never")

    running = asyncio.create_task(node.run(payer(ledger, waits), "p"))
    await asyncio.wait_for(entered.wait(), 60)
    async with Node.in_memory(log) as other, other.open("p", take_over=True):
        with pytest.raises(Fenced):
            await asyncio.wait_for(running, 60)


async def test_it_is_no_failure_of_a_step_around_it(node: Node) -> None:
    """A step in whose body nobody can tell of an effect is in doubt, as if there were no group."""

    async def reset() -> None:
        raise ConnectionError("reset")

    async with node.open("p") as process:

        async def body() -> None:
            await grouped(process.effect("mail", reset, semantics=Effect.AT_MOST_ONCE))

        with pytest.raises(ExceptionGroup):
            await process.step("outer", body)
        assert process.state.calls["outer:1"].status == "started"


async def test_a_plain_process_that_is_cancelled_is_stopped(node: Node) -> None:
    """Opened by hand, without an agent."""
    await node.cancel("p")
    with pytest.raises(ExceptionGroup) as caught:
        async with node.open("p") as process:
            await process.transition("starting")

            async def waits() -> None:
                await process.gate("never")

            await grouped(waits())
    assert caught.value.split(Cancelled)[1] is None
    assert (await node.recover("p")).state.lifecycle == "stopped"
