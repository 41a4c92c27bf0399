"""Which failures are set aside when a failed run is told to try again: those that ended it, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counted_steps import CUT, Counted, Declined, fails
from cut_offs import cut_here, cut_off
from cuts import of_kind
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayDivergence


async def test_a_failure_that_the_code_caught_is_not_set_aside(node: Node, log: MemoryLog) -> None:
    """It went another way: asked again the call might succeed, and the history would have what nobody asks for."""
    first, second = Counted(Declined("no")), Counted(Declined("no"), "second")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        try:
            return await process.step("first", first)
        except Declined:
            pass
        return await process.step("second", second)

    await fails(node, run)
    assert await node.run(run, "p", retry_failed=True) == "second"
    assert (len(first.runs), len(second.runs)) == (1, 2)


async def test_a_failure_that_was_written_about_is_not_set_aside(node: Node, log: MemoryLog) -> None:
    """The write stands in the history behind it; the failure is raised again, and nothing diverges."""
    pay = Counted(Declined("no"), "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        try:
            return await process.step("pay", pay)
        except Declined:
            await process.update("status", "sorry")
            raise

    await fails(node, run)
    await fails(node, run, retry_failed=True)
    assert of_kind(log, b.CallsSetAside) == []
    with pytest.raises(ReplayDivergence):  # named, it is done: who names it knows the code
        await node.run(run, "p", retry_failed=["pay:1"])


async def test_a_failure_about_which_the_code_asked_for_more_is_not_set_aside(node: Node, log: MemoryLog) -> None:
    """Code in which the call succeeds would not ask for it: the run would diverge once the call was made again."""
    pay, notify = Counted(Declined("no"), "paid"), Counted("sent")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        try:
            return await process.step("pay", pay)
        except Declined:
            await process.step("notify", notify)
            raise

    await fails(node, run)
    await fails(node, run, retry_failed=True)
    assert of_kind(log, b.CallsSetAside) == []
    assert (len(pay.runs), len(notify.runs)) == (1, 1)


async def test_a_task_s_failure_that_was_written_about_is_not_set_aside(node: Node, log: MemoryLog) -> None:
    """Its calls count for themselves; what the code around it asks for behind the failure counts too."""
    pay = Counted(Declined("no"), "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        async def branch() -> Any:
            await process.step("look", str, 1)
            return await process.step("pay", pay)

        try:
            return await asyncio.create_task(branch())
        except Declined:
            await process.update("status", "sorry")
            raise

    await fails(node, run)
    await fails(node, run, retry_failed=True)
    assert of_kind(log, b.CallsSetAside) == []


async def test_what_the_code_noted_of_a_failure_does_not_say_that_it_ended_the_run(log: MemoryLog) -> None:
    """It was cut off right behind its own note, and goes on there."""
    pay, cuts = Counted(Declined("no"), "paid"), [1]

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> str:
        try:
            await process.step("pay", pay)
        except Declined as exc:
            await process.record_error(exc)
        if cuts:
            cuts.pop()
            await cut_here()
        return "left"

    async with Node.in_memory(log) as node:
        await cut_off(node.run(run, "p"))
    async with Node.in_memory(log) as node:
        assert await node.run(run, "p", retry_failed=True) == "left"
    assert len(pay.runs) == 1


async def test_a_run_that_went_on_since_does_not_end_with_the_failure_of_the_one_before(log: MemoryLog) -> None:
    """The code was changed, caught the failure and was cut off: asked again, the call would have no place behind it."""
    pay, leave = Counted(Declined("no"), "paid"), Counted(CUT, "left")

    @agent("a", version="1")
    async def before(process: Process, _: Any) -> Any:
        return await process.step("pay", pay)

    @agent("a", version="2")
    async def after(process: Process, _: Any) -> Any:
        try:
            await process.step("pay", pay)
        except Declined:
            await process.update("status", "sorry")
            return await process.step("leave", leave)

    async with Node.in_memory(log) as node:
        await fails(node, before)
        await cut_off(node.run(after, "p"))
    async with Node.in_memory(log) as node:
        assert await node.run(after, "p", retry_failed=True) == "left"
    assert len(pay.runs) == 1
