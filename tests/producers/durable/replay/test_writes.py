"""What an agent's code writes are calls: replayed, each in the order of its scope. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import bodies
from refund_agent import World
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused


async def test_an_invocation_is_replayed_too(node: Node, log: MemoryLog) -> None:
    """Its entries are calls; how long it took does not matter."""
    fails = True

    @agent("server")
    async def run(process: Process, input: Any) -> Any:
        async with process.invocation("message", {"text": "hi"}) as work:
            assert process.state.invocation is not None
            work.result = await process.step("answer", str.upper, "hi")
        assert process.state.invocations == 1
        if fails:
            raise ValueError("broken")
        return work.result

    with pytest.raises(ValueError, match="broken"):
        await node.run(run, "p")
    fails = False
    assert await node.run(run, "p") == "HI"
    assert sum(isinstance(body, b.InvocationEnded) for body in bodies(log)) == 1


async def test_writes_in_branches_are_replayed_each_in_its_own_order(node: Node, log: MemoryLog) -> None:
    """And one branch may be past its history while another is still in it."""
    world = World()
    world.break_at = "slow"

    @agent("brancher")
    async def run(process: Process, input: Any) -> Any:
        async def branch(name: str) -> None:
            await process.update(name, 1)
            await process.step(name, world.do, name)
            world.maybe_break(name)
            await process.update(name, 2)

        await asyncio.gather(branch("quick"), branch("slow"))
        return process.state.context

    with pytest.raises(ValueError, match="broken at slow"):
        await node.run(run, "p")
    world.break_at = None
    assert await node.run(run, "p") == {"quick": 2, "slow": 2}
    assert sorted(world.done) == ["quick", "slow"]
    calls = [body.call for body in bodies(log) if isinstance(body, b.ContextUpdated)]
    assert len(calls) == len(set(calls)) == 4


async def test_content_is_not_written_inside_a_step(node: Node) -> None:
    """The step is remembered by its result; what it wrote would be missing when its agent runs again."""

    @agent("inner")
    async def run(process: Process, input: Any) -> Any:
        async def body() -> None:
            await asyncio.create_task(process.update("a", 1))

        with pytest.raises(Refused, match="inside the body"):
            await process.step("write", body)
        await process.update("a", 2)

    await node.run(run, "p")
