"""Branches that are answered from the record wait for each other as they did when it was made. In memory."""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import Any

import pytest

from cuts import cuts, entries_of, on_node
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.durable.replay.completion_order import CompletionOrder
from seekpoint.producers.testing import assert_replays
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import ReplayDivergence
from seekpoint.schemas.state.calls import Call


async def for_ever() -> None:
    await asyncio.Event().wait()


@agent("group")
async def group(process: Process, input: Any) -> str:
    waits = asyncio.Event()

    async def waiting() -> None:
        waits.set()
        await for_ever()

    async def fails() -> None:
        await waits.wait()
        raise ValueError("no")

    async def slow() -> None:
        for number in range(2):
            await asyncio.sleep(0.002)  # its own, between two calls
            await process.step("look", str, number)
        await process.step("wait", waiting)

    async def bad() -> None:
        await process.step("fail", fails)

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bad())
            tasks.create_task(slow())
    except* ValueError:
        pass
    return await process.step("go on", str, "done")


async def monitor(process: Process) -> None:
    try:
        await process.step("watch", for_ever)
    finally:
        await process.step("tidy", str, 1)


async def called_off(process: Process, watching: asyncio.Task[None]) -> str:
    watching.cancel()
    await asyncio.wait([watching])
    return await process.step("go on", str, "done")


@agent("monitored")
async def monitored(process: Process, input: Any) -> str:
    watching = asyncio.create_task(monitor(process))
    await process.step("work", asyncio.sleep, 0.01)
    return await called_off(process, watching)


@agent("written")
async def written(process: Process, input: Any) -> str:
    watching = asyncio.create_task(monitor(process))
    await process.update("is", "watched")  # acknowledged once the task has begun
    return await called_off(process, watching)


@agent("quick")
async def quick(process: Process, input: Any) -> str:
    async def at_once() -> None:
        raise ValueError

    async def beside() -> None:
        await process.step("look", str, 1)
        await process.step("wait", for_ever)

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(beside())
            await process.step("fail", at_once)
    except* ValueError:
        pass
    return await process.step("go on", str, "done")


@pytest.mark.parametrize("run", [group, monitored, written, quick], ids=lambda run: run.name)
async def test_a_task_that_was_cancelled_is_cancelled_after_the_same_calls(run: Agent) -> None:
    """What cancels it is answered at once in a run that follows: not before it asked for what it had asked for. Through
    a crash after any entry, and one more in the run that resumed."""
    log = MemoryLog(partitions=1)
    assert await on_node(log, lambda node: node.run(run, "p")) == "done"
    await assert_replays(run, entries_of(log))
    for crashed in cuts(log):
        assert await on_node(crashed, lambda node: node.run(run, "p", take_over=True)) == "done"
        await assert_replays(run, entries_of(crashed))


async def first_ones(process: Process, input: Any) -> list[str]:
    gone, late = asyncio.Event(), asyncio.Event()

    async def branch(name: str, after: asyncio.Event, then: asyncio.Event) -> str:
        async def body() -> str:
            await after.wait()
            return name

        found = await process.step(name, body)
        then.set()
        return found

    async def last() -> str:
        await asyncio.sleep(0)
        gone.set()
        return await process.step("last", str, "last")

    tasks = {asyncio.create_task(branch("behind", late, asyncio.Event())),
             asyncio.create_task(branch("first", gone, late)), asyncio.create_task(last())}  # fmt: skip
    came: list[str] = []
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        came += sorted(task.result() for task in done if task.result() != "last")
    return await process.step("end", list, came)


async def test_answers_come_one_by_one_as_they_came() -> None:
    """Code that takes whoever is first gets the same one first, though all of them are there at once."""
    run, log = agent("first")(first_ones), MemoryLog(partitions=1)
    assert await on_node(log, lambda node: node.run(run, "p")) == ["first", "behind"]
    await assert_replays(run, entries_of(log))
    for crashed in cuts(log):
        assert await on_node(crashed, lambda node: node.run(run, "p", take_over=True)) == ["first", "behind"]


async def test_a_branch_that_is_gone_is_waited_for_once(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that lost a branch is told that it diverges, after one wait and not after one a call."""
    monkeypatch.setattr("seekpoint.producers.durable.replay.completion_order._PATIENCE_S", 0.01)
    waits = 0
    give_up = CompletionOrder.give_up

    def counted(order: CompletionOrder) -> None:
        nonlocal waits
        waits += 1
        give_up(order)

    monkeypatch.setattr(CompletionOrder, "give_up", counted)

    def made(has_branch: bool) -> Agent:
        @agent("branched")
        async def run(process: Process, input: Any) -> None:
            async def branch() -> None:
                await process.step("beside", str, 1)

            if has_branch:
                await asyncio.create_task(branch())
            for number in range(3):
                await process.step("main", str, number)
            if has_branch:
                raise ConnectionError

        return run

    with pytest.raises(ConnectionError):
        await on_node(log, lambda node: node.run(made(True), "p"))
    with pytest.raises(ReplayDivergence, match="ended before it made every call"):
        await on_node(log, lambda node: node.run(made(False), "p"))
    assert waits == 2  # of patience, and as it diverged


async def test_a_fork_counts_its_seqs_anew(node: Node, log: MemoryLog) -> None:
    """The seqs of what it inherited say nothing of what it did itself: nobody waits for anybody."""
    broken = True

    @agent("forked")
    async def run(process: Process, input: Any) -> str:
        async def branch() -> None:
            await process.step("beside", str, 1)

        for number in range(5):
            await process.step("main", str, number)
        await asyncio.create_task(branch())
        if broken:
            raise ConnectionError
        return "done"

    with pytest.raises(ConnectionError):
        await node.run(run, "p")
    beside = next(entry.seq for entry in entries_of(log) if getattr(entry.body, "key", "") == "~1/beside:1")
    assert beside is not None
    async with node.fork("p", "child", at_seq=beside - 1):
        pass
    with pytest.raises(ConnectionError):
        await node.run(run, "child")
    broken = False
    assert await asyncio.wait_for(node.run(run, "child"), 3) == "done"


async def test_a_call_that_was_tried_again_is_waited_for_by_what_ended_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record says when it was last tried: what ended before that may be what it was asked for behind."""
    monkeypatch.setattr(CompletionOrder, "give_up", lambda order: pytest.fail("it was waited for by the clock"))
    read = {"plan:1"}
    plan, again = Call("step", 1, "", "succeeded", 1, 2), Call("step", 1, "", "started", 2, 7)
    order = CompletionOrder({"plan:1": plan, "~1/look:1": again}, read)
    await order.until_due(plan, "")
    waiting = asyncio.create_task(order.until_due(Call("step", 2, "", "succeeded", 1, 9), ""))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    read.add("~1/look:1")
    order.look_again()
    await waiting


def test_calls_of_one_scope_never_wait_for_each_other() -> None:
    """One that was settled late, as an effect by a person, has a later seq than what the program asked behind it."""
    late = Call("effect", 1, "", "succeeded", 1, 9)
    order = CompletionOrder({"pay:1": late, "go on:1": Call("step", 2, "", "succeeded", 1, 5),
                   "~1/x:1": Call("step", 1, "", "succeeded", 1, 12)}, {"pay:1"})  # fmt: skip
    assert order.is_due(late.seq, "")
    assert not order.is_due(inf, "")


def test_what_its_body_need_not_ask_again_is_not_waited_for() -> None:
    """In the body of a call that is over, of one in a further attempt, of an effect."""
    inner, mine = Call("step", 1, "", "succeeded", 1, 3), Call("step", 1, "", "succeeded", 1, 9)
    for around in (
        Call("step", 1, "", "succeeded", 1, 4), Call("step", 1, "", "started", 2, 4),
        Call("effect", 1, "", "pending", 1, 2),
    ):  # fmt: skip
        order = CompletionOrder(
            {"~1/outer:1": around, "~1/outer:1/inner:1": inner, "mine:1": mine}, {"~1/outer:1", "mine:1"}
        )
        assert order.is_due(mine.seq, "")


def test_ten_thousand_calls_of_one_scope_are_looked_at_once() -> None:
    """They ended in another order than they were asked in, beside a branch that comes late: none reads all others."""
    count = 10_000
    calls = {f"a:{at}": Call("step", at, "", "succeeded", 1, 3 * count - at) for at in range(1, count + 1)}
    read: set[str] = set()
    order = CompletionOrder(calls | {"~1/x:1": Call("step", 1, "", "succeeded", 1, 9 * count)}, read)
    began = time.process_time()
    for key, call in calls.items():
        read.add(key)
        assert order.is_due(call.seq, "")
    assert time.process_time() - began < 2  # 0.02 s; each with each takes ten
