"""Runs that somebody suspends, and what processes wait for: its name, and who wakes them. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from folding import refold
from seekpoint.consumers.view.process_summary import summary_of
from seekpoint.producers import Client, Node, Process, Worker, agent, agent_run
from seekpoint.producers.node import runtime_of
from seekpoint.producers.worker import agent_worker
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import Cancelled, EffectUnknown, ProcessSuspended
from seekpoint.schemas.state.process_state import State


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_run, "_LOOK_S", 0.02)


async def until_awaits(log: MemoryLog, process_id: str, *awaits: str) -> State:
    """Return the state once what the process waits for has these names."""
    async with asyncio.timeout(30):
        while True:
            state = refold(log, process_id)
            if summary_of(0, process_key(process_id), state).awaits == awaits:
                return state
            await asyncio.sleep(0.01)


@agent("asker")
async def asker(process: Process, _: Any) -> str:
    return "yes" if (await process.gate("ok")).approved else "no"


async def test_a_run_of_a_node_stops_when_it_is_suspended() -> None:
    """It goes on where it was once it is resumed and run again; nothing of it is an error of the agent."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        run = asyncio.create_task(node.run(asker, "p", None))
        await until_awaits(log, "p", "gate ok:1")
        await client.suspend("p", "look at it", actor="ann")
        with pytest.raises(ProcessSuspended, match="look at it"):
            await run
        state = refold(log, "p")
        assert (state.owner, state.failure, state.is_on_hold) == (None, None, True)
        with pytest.raises(ProcessSuspended):
            await node.run(asker, "p")
        await client.resume("p")
        await client.approve("p", "ok")
        assert await node.run(asker, "p") == "yes"


async def test_a_parent_waits_for_its_child_that_is_suspended() -> None:
    """The child is not failed by it."""
    log = MemoryLog()

    @agent("parent")
    async def parent(process: Process, _: Any) -> str:
        child = process.spawn(asker, "p.1")
        return str(await child.result())

    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        run = asyncio.create_task(node.run(parent, "p", None))
        await until_awaits(log, "p.1", "gate ok:1")
        await client.suspend("p.1")
        async with asyncio.timeout(30):
            while refold(log, "p.1").owner is not None:  # noqa: ASYNC110  # no event for it
                await asyncio.sleep(0.01)
        await client.approve("p.1", "ok")
        await client.resume("p.1")
        assert await asyncio.wait_for(run, 30) == "yes"


async def test_what_a_process_waits_for_has_a_name() -> None:
    """Of a signal too, which no call in its state has; and of an effect that only a person can settle."""
    log = MemoryLog()

    async def no_answer() -> None:
        raise TimeoutError

    @agent("waiter")
    async def waiter(process: Process, _: Any) -> None:
        await process.receive("invoice")
        await process.receive()
        await process.effect("pay", no_answer)

    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        run = asyncio.create_task(node.run(waiter, "p", None))
        await until_awaits(log, "p", "signal invoice")
        assert (await client.status("p")).waits_for == ("signal invoice",)
        await client.signal("p", "invoice")
        await until_awaits(log, "p", "any signal")
        await client.signal("p", "whatever")
        with pytest.raises(EffectUnknown):
            await run
        state = await until_awaits(log, "p", "effect pay:1")
        assert summary_of(0, b"p", state).waits_for == ("effect",)
        assert (await client.status("p")).waits_for == ("pay:1",)


async def test_what_is_over_waits_for_nothing() -> None:
    """Also where its code has left a gate open; nor does one that is being cancelled, but for its compensations."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        run = asyncio.create_task(node.run(asker, "p", None))
        await until_awaits(log, "p", "gate ok:1")
        await client.cancel("p")
        with pytest.raises(Cancelled):
            await run
        assert refold(log, "p").waits_for
        await until_awaits(log, "p")
        assert (await client.status("p")).waits_for == ()


async def test_a_process_that_watches_a_shared_value_is_not_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value's entries are those of another process, which wakes nobody else. A drain does release it."""
    monkeypatch.setattr(agent_worker, "_LOOK_S", 0.05)
    log = MemoryLog()

    @agent("watcher")
    async def watcher(process: Process, _: Any) -> Any:
        return (await anext(process.shared("price").watch())).value

    async with Client.in_memory(log) as client, Node.in_memory(log) as node:
        async with Worker.in_memory([watcher], log, grace_s=0.02):
            first, second = await client.submit(watcher, "p"), await client.submit(watcher, "q")
            await until_awaits(log, "p", "shared value price")
            await until_awaits(log, "q", "shared value price")
            await asyncio.sleep(0.6)  # many times the grace
            assert refold(log, "p").owner is not None
            began_s = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began_s < 5.0, "the drain waited for it"
        assert refold(log, "p").lifecycle == "running"
        async with Worker.in_memory([watcher], log, grace_s=0.02):
            await until_awaits(log, "p", "shared value price")
            await asyncio.sleep(0.6)
            await node.shared("price").set(7)
            assert (await first.result(20), await second.result(20)) == (7, 7)


async def test_a_run_that_is_resumed_while_it_is_stopped_names_who_suspended_it() -> None:
    """Its code ends slowly, and the request is over by then."""
    log, is_leaving, may_leave = MemoryLog(), asyncio.Event(), asyncio.Event()

    @agent("slow")
    async def slow(process: Process, _: Any) -> None:
        try:
            await process.gate("ok")
        finally:
            is_leaving.set()
            await may_leave.wait()

    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        run = asyncio.create_task(node.run(slow, "p", None))
        await until_awaits(log, "p", "gate ok:1")
        await client.suspend("p", "look at it", actor="ann")
        await is_leaving.wait()
        await client.resume("p")
        handle = runtime_of(node).handles["p"]
        assert handle is not None
        async with asyncio.timeout(30):
            while handle.state.is_on_hold:
                await runtime_of(node).confirmer.to_end(handle)
        may_leave.set()
        with pytest.raises(ProcessSuspended, match="look at it"):
            await run
