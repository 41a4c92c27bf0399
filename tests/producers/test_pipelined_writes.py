"""Writes that nobody waits for: what ``flush`` promises, what may be lost, how much is under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import of_kind
from late_log import FAST
from seekpoint.producers import Agent, Node, Process
from seekpoint.producers.node import runtime_of
from seekpoint.producers.writer.pipeline import BYTES_MAX, ENTRIES_MAX
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies import Custom
from seekpoint.schemas.errors import AppendTimeout, Fenced, LimitExceeded, UnserializableValue


async def test_they_are_written_in_order_and_flush_waits_for_them(node: Node, log: MemoryLog) -> None:
    """With those that are waited for in between; each has its seq at once."""
    async with node.open("p") as process:
        sent = [await process.record("work", number, wait=False) for number in range(100)]
        assert [(one.seq, one.offset) for one in sent] == [(seq, -1) for seq in range(1, 101)]
        assert (await process.record("work", 100)).seq == 101
        await process.update("a", 1, wait=False)
        await process.say("user", "hello", wait=False)
        await process.change(set={"b": 2}, delete=["a"], wait=False)
        assert process.state.seq < 104
        await process.flush()
        assert (process.state.seq, process.state.context) == (104, {"b": 2})
        await process.flush()
        await process.record("last", wait=False)
        await process.confirm()
        assert (await node.recover("p")).state.seq == 105
        await process.record("left", wait=False)
    assert [body.payload for body in of_kind(log, Custom)] == [*map(str, range(101)), "null", "null"]


async def test_only_so_much_is_under_way() -> None:
    """The call waits then. A silent log holds it up, and memory has no more than the limits."""
    log = MemoryLog()
    async with Node.in_memory(log, append_timeout_s=60.0) as node:
        process = await node.open("p")

        async def write(size: int) -> None:
            while True:
                await process.record("work", "x" * size, wait=False)

        pending = runtime_of(node).handles["p"].pending  # type: ignore[union-attr]
        for size, most in ((1, ENTRIES_MAX), (500_000, BYTES_MAX // 500_000 + 1)):
            log.refuse_appends()
            before = len(pending)
            task = asyncio.create_task(write(size))
            for _ in range(200):
                await asyncio.sleep(0)
            held_up = len(pending)
            for _ in range(50):
                await asyncio.sleep(0)
            assert before < len(pending) == held_up <= before + most
            task.cancel()
            await asyncio.wait({task})
            log.heal()
            await process.flush()


async def test_flush_raises_the_first_failure_and_so_does_every_later_call(node: Node, log: MemoryLog) -> None:
    """A fenced owner's entries count for nothing."""
    process = await node.open("p")
    await process.record("work", 0)
    async with Node.in_memory(log, node_id="other") as other, other.open("p", take_over=True):
        with pytest.raises(Fenced):  # at the first call if the node has read the claim by then
            await process.record("work", 1, wait=False)
            await process.confirm()
        for call in (process.flush, lambda: process.record("work", 2, wait=False)):
            with pytest.raises(Fenced):
                await call()
    assert (await node.recover("p")).state.customs == 1


async def test_a_call_that_is_cancelled_does_not_cancel_a_flush() -> None:
    """The flush waits for the entry all the same: it was sent."""
    log = MemoryLog()
    async with Node.in_memory(log, append_timeout_s=60.0) as node:
        process = await node.open("p")
        log.refuse_appends()
        await process.record("work", 1, wait=False)
        given_up = asyncio.create_task(process.record("work", 2))
        await asyncio.sleep(0)
        flushing = asyncio.create_task(process.flush())
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait({given_up})
        await asyncio.wait({flushing}, timeout=0.05)
        assert not flushing.done()
        log.heal()
        await flushing
        assert process.state.customs == 2


async def test_a_confirmation_waits_for_what_nobody_waited_for() -> None:
    """It holds for everything that was written, not only for what is acknowledged."""
    log = MemoryLog()
    async with Node.in_memory(log, append_timeout_s=60.0) as node:
        process = await node.open("p")
        log.refuse_appends()
        await process.record("work", 1, wait=False)
        confirming = asyncio.create_task(process.confirm())
        await asyncio.wait({confirming}, timeout=0.05)
        assert not confirming.done()
        log.heal()
        await confirming
        assert (await node.recover("p")).state.customs == 1


async def test_what_does_not_fit_is_refused_at_the_call(node: Node) -> None:
    """Nothing of it is sent, and the others go on."""
    async with node.open("p") as process:
        with pytest.raises(UnserializableValue):
            await process.record("work", object(), wait=False)
        with pytest.raises(LimitExceeded):
            await process.record("work", "x" * 2_000_000, wait=False)
        await process.record("work", 1, wait=False)
        await process.flush()
        assert process.state.seq == 1


async def test_a_log_that_stays_silent_is_the_failure_that_flush_raises() -> None:
    """Entries before it are there, those from it on are lost together: a beginning of what was written is kept."""
    log = MemoryLog()
    async with Node.in_memory(log, **{**FAST, "heal_timeout_s": 0.1}) as node:
        process = await node.open("p")
        for number in range(3):
            await process.record("work", number, wait=False)
        await process.flush()
        log.refuse_appends()
        for number in range(3, 6):
            await process.record("work", number, wait=False)
        with pytest.raises(AppendTimeout):
            await process.flush()
        with pytest.raises(AppendTimeout):
            await process.record("work", 6, wait=False)
        log.heal()
        assert (await node.recover("p")).state.customs == 3


async def test_a_repeated_write_need_not_be_waited_for(node: Node, log: MemoryLog) -> None:
    """Its id holds from the moment that it was sent."""
    async with node.open("p") as process:
        sent = await process.record("work", 1, wait=False, entry_id=bytes(16))
        again = await process.record("work", 1, wait=False, entry_id=bytes(16))
        assert (sent.seq, sent.offset, again.seq, again.is_repeated) == (1, -1, 1, True)
        await process.flush()
    assert len(of_kind(log, Custom)) == 1


async def test_an_agents_code_may_go_on_at_once_too(node: Node, log: MemoryLog) -> None:
    """A crash loses what was not flushed, and the code writes it again; nothing is written twice."""
    ran = []

    async def code(process: Process, input: Any) -> Any:
        for number in range(5):
            await process.record("work", number, wait=False)
        ran.append(1)
        if len(ran) == 1:
            raise OSError("the machine dies")
        await process.flush()
        return process.state.seq > 0

    agent = Agent("code", "1", code)
    with pytest.raises(OSError, match="dies"):
        await node.run(agent, "p")
    assert await node.run(agent, "p")
    assert [body.payload for body in of_kind(log, Custom)] == ["0", "1", "2", "3", "4"]
