"""Mail that an agent's code receives is taken once, through any crash. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import cut_after, cuts, of_kind, on_node, until
from mail_agents import reader
from open_processes import handle_of
from seekpoint.producers import Node, Process, VirtualClock, agent
from seekpoint.producers.testing import When, assert_replays, crash_at, history_of
from seekpoint.producers.writer.pending import HandleStatus
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Fenced


def ids(count: int) -> list[bytes]:
    return [bytes(15) + bytes([number]) for number in range(1, count + 1)]


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("call", ["receive:1", "receive:2"])
async def test_a_crash_at_its_entry_neither_loses_nor_doubles_mail(call: str, when: When) -> None:
    """Before the entry it waits on in the mailbox, behind it it is in the record."""
    sent = ids(3)
    crash = crash_at(call=call, when=when)
    async with Node.in_memory(crash.log) as node:
        for number, one in enumerate(sent):
            await node.signal("p", "go", number, signal_id=one)
    found = await crash.run(reader("go", None), "p", None)
    assert [item[2] for item in found] == [0, 1]
    taken = [one.external_id for one in of_kind(crash.log, b.Received)]
    assert taken == sent[:2]
    await assert_replays(reader("go", None), crash.history())


async def test_mail_survives_a_crash_anywhere() -> None:
    """Cut after each entry, the signals with it; who sent them and lost them sends them again. Each is taken once."""
    whole, sent = MemoryLog(partitions=1), ids(3)

    @agent("worker")
    async def worker(process: Process, input: Any) -> Any:
        seen: list[Any] = []
        async for turn in process.turns():
            seen.append((await process.receive("go")).payload)
            seen.append(await process.step("work", str, seen[-1]))
            if turn.number == 3:
                break
        return seen[-2:]

    async def ran(node: Node) -> Any:
        for number, one in enumerate(sent):
            await node.signal("p", "go", number, signal_id=one)
        return await node.run(worker, "p", take_over=True)

    wanted = await on_node(whole, ran)
    assert wanted == [2, "2"]
    for log in cuts(whole):
        assert await on_node(log, ran) == wanted
        assert [one.external_id for one in of_kind(log, b.Received)] == sent
        await assert_replays(worker, history_of(log, "p"))


async def test_branches_and_bodies_that_receive_survive_a_crash_anywhere() -> None:
    """Each gets what it got, whichever was quicker before; what was open goes on waiting; a time-out stays one."""
    whole, sent = MemoryLog(partitions=1), ids(4)

    @agent("worker")
    async def worker(process: Process, input: Any) -> Any:
        async def branch(name: str) -> Any:
            first = (await process.receive(name)).payload

            async def body() -> Any:
                return (await process.receive(name)).payload

            return [first, await process.step(f"second {name}", body)]

        both = await asyncio.gather(branch("left"), branch("right"))
        with pytest.raises(TimeoutError):
            await process.receive("never", timeout_s=3600)
        return [*both, bool(await process.gate("ok"))]

    async def ran(node: Node) -> Any:
        for number, name in enumerate(("left", "right", "left", "right")):
            await node.signal("p", name, number, signal_id=sent[number])
        await node.signal("p", "ok", True, signal_id=bytes(16)[1:] + b"9")
        return await node.run(worker, "p", take_over=True)

    assert await on_node(whole, ran) == [[0, 2], [1, 3], True]
    for log in cuts(whole):
        assert await on_node(log, ran) == [[0, 2], [1, 3], True]
        taken = [one.external_id for one in of_kind(log, b.Received)]
        assert sorted(taken) == sorted([*sent, b.NIL_ID])
        await assert_replays(worker, history_of(log, "p"))


async def test_an_uncertain_append_takes_it_once(log: MemoryLog, clock: VirtualClock) -> None:
    """The log is away when the entry is on its way: it is sent again under the new claim, and only then answers."""
    owner: list[Process] = []
    taken: list[Any] = []

    @agent("reader")
    async def run(process: Process, input: Any) -> Any:
        owner.append(process)
        log.refuse_appends()
        taken.append((await process.receive("go")).payload)
        return taken[0]

    async with Node.in_memory(log, clock=clock, append_timeout_s=0.1, producer_drain_s=0.01) as node:
        await node.signal("p", "go", 1)
        running = asyncio.create_task(node.run(run, "p"))
        await until(lambda: owner and handle_of(owner[0]).status is HandleStatus.HEALING)
        assert not taken
        log.heal()
        assert await asyncio.wait_for(running, 60) == 1
    assert len(of_kind(log, b.Received)) == 1
    assert len(of_kind(log, b.Claim)) == 2


async def test_an_owner_that_lost_the_process_takes_nothing(log: MemoryLog) -> None:
    """What it wrote is fenced: the mail is the new owner's, once."""
    async with Node.in_memory(log) as old, Node.in_memory(log) as new:
        run = asyncio.create_task(old.run(reader("go"), "p"))
        await until(lambda: of_kind(log, b.LifecycleChanged))
        again = asyncio.create_task(new.run(reader("go"), "p", take_over=True))
        await until(lambda: len(of_kind(log, b.Claim)) == 2)
        await new.signal("p", "go", 1)
        assert (await asyncio.wait_for(again, 60))[0][2] == 1
        with pytest.raises(Fenced):
            await asyncio.wait_for(run, 60)
    assert (await on_node(cut_after(log, log.watermarks(0).high), lambda node: node.recover("p"))).state.finished
