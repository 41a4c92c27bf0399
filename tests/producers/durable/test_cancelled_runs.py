"""A run whose task is cancelled, as by Ctrl-C, SIGTERM or a program that ends: nothing is written on its way out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from cuts import of_kind
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.testing import assert_replays, history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b


async def cancelled(node: Node, run: Agent, begun: asyncio.Event) -> None:
    """Run it, and cancel that once it has begun."""
    task = asyncio.create_task(node.run(run, "p"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_code_asks_on_its_way_out_is_not_in_the_way_of_the_run_that_resumes(
    node: Node, log: MemoryLog
) -> None:
    """A finally that tidies up, a write, a task group that is left: refused when cancelled, done when it is time."""
    begun, seen = asyncio.Event(), []

    @agent("tidy")
    async def tidy(process: Process, input: Any) -> str:
        async def look(begins: bool) -> str:
            if begins and not begun.is_set():
                begun.set()
                await asyncio.Event().wait()
            return "seen"

        try:
            await process.step("first", str, 1)
            async with asyncio.TaskGroup() as tasks:
                looks = [tasks.create_task(process.step("look", look, begins)) for begins in (False, True)]
            return ", ".join(each.result() for each in looks)
        finally:
            seen.append("left")
            await process.update("tidied", True)
            await process.step("tidy", seen.append, "tidied")

    await cancelled(node, tidy, begun)
    assert seen == ["left"]
    assert history_of(log, "p")[-1].kind == "released"
    assert "tidy:1" not in {body.key for body in of_kind(log, b.StepStarted)}
    assert await node.run(tidy, "p") == "seen, seen"
    assert seen == ["left", "left", "tidied"]
    assert len(of_kind(log, b.ContextUpdated)) == 1
    await assert_replays(tidy, history_of(log, "p"))


@pytest.mark.parametrize("swallows", [True, False])
async def test_code_that_goes_on_does_not_end_its_run(node: Node, swallows: bool) -> None:
    """It makes a result, or a failure, of the cancellation: the process is as it stood, and resumes."""
    begun = asyncio.Event()

    async def wait() -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    @agent("goes on")
    async def goes_on(process: Process, input: Any) -> str:
        try:
            return await process.step("wait", wait)
        except asyncio.CancelledError:
            if swallows:
                return "gave up"
            raise ValueError from None

    await cancelled(node, goes_on, begun)
    found = (await node.recover("p")).state
    assert (found.owner, found.lifecycle) == (None, "running")
    assert await node.run(goes_on, "p") == "waited"


async def test_a_turn_that_was_cancelled_is_not_ended_by_code_that_goes_on(node: Node, log: MemoryLog) -> None:
    """A loop that swallows everything: its turn would count as done. Nor is it marked as changed."""
    begun = asyncio.Event()

    async def wait() -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    @agent("loops")
    async def loops(process: Process, input: Any) -> list[str]:
        seen = []
        async for turn in process.turns():
            try:
                seen.append(await process.step("wait", wait))
            except asyncio.CancelledError:
                process.patched("late")
            if turn.number == 2:
                break
        return seen

    @agent("loops")
    async def swallows(process: Process, input: Any) -> list[str]:
        seen = []
        async for turn in process.turns():
            with contextlib.suppress(asyncio.CancelledError):
                seen.append(await process.step("wait", wait))
            if turn.number == 2:
                break
        return seen

    for run in (loops, swallows):
        begun.clear()
        await cancelled(node, run, begun)
    assert of_kind(log, b.TurnEnded) == []
    assert of_kind(log, b.PatchMarked) == []
    assert await node.run(swallows, "p") == ["waited", "waited"]
