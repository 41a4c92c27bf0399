"""Cancelling: a request from outside, accepted, told to the code, and brought to its end. In memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from cuts import bodies, cuts, entries_of, of_kind, on_node, until
from seekpoint.producers import Agent, Node, Process, Retry, VirtualClock, agent
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled, ObligationStuck, ReplayDivergence


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(skips=False)


def lives(log: MemoryLog) -> list[str]:
    return [body.to for body in of_kind(log, b.LifecycleChanged)]


class World:
    """What was done, and taken back."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.breaks = False

    async def do(self, what: str) -> str:
        self.done.append(what)
        return what

    async def undo(self, what: str) -> None:
        if self.breaks:
            raise OSError("the shop is closed")
        self.done.append(f"un{what}")

    def agent(self, *, wait: str = "gate") -> Agent:
        """Books and pays, waits, ships. What it did can be taken back."""

        @agent("shop")
        async def run(process: Process, input: Any) -> Any:
            for what in ("book", "pay"):
                await process.effect(what, self.do, what, compensate=self.undo)
            try:
                if wait == "gate":
                    await process.gate("go", timeout=3_600)
                elif wait == "sleep":
                    await process.sleep(3_600)
                else:
                    await process.step("talk", self.do, "talk")
            finally:
                await process.update("left", True)
            await process.step("ship", self.do, "ship")
            return "shipped"

        return run


@pytest.mark.parametrize("wait", ["gate", "sleep"])
async def test_a_cancel_ends_a_wait_and_takes_back_what_was_done(node: Node, log: MemoryLog, wait: str) -> None:
    """Accepted by the owner; compensated, the newest first; stopping, stopped, released."""
    world = World()
    run = asyncio.create_task(node.run(world.agent(wait=wait), "p"))
    await until(lambda: "awaiting" in lives(log))
    request = await node.cancel("p", "sold out", actor="ann")
    with pytest.raises(Cancelled) as caught:
        await asyncio.wait_for(run, 60)
    assert (caught.value.process_id, caught.value.reason) == ("p", "sold out")
    assert world.done == ["book", "pay", "unpay", "unbook"]
    (accepted,) = of_kind(log, b.CancelAccepted)
    assert (accepted.external_id, accepted.reason) == (request, "sold out")
    assert lives(log) == ["awaiting", "stopping", "stopped"]
    state = (await node.recover("p")).state
    assert (state.cancelled, state.owner, state.finished, state.mailbox) == ("sold out", None, False, {})
    assert (state.lifecycle, state.obligations, state.context) == ("stopped", (), {"left": True})
    assert not of_kind(log, b.ErrorRecorded)


async def test_a_cancelled_process_never_runs_on(node: Node, log: MemoryLog) -> None:
    """Run again, its code is not even called; a fork is another process, and goes on."""
    world = World()
    run = asyncio.create_task(node.run(world.agent(), "p"))
    await until(lambda: "awaiting" in lives(log))
    await node.cancel("p")
    with pytest.raises(Cancelled):
        await asyncio.wait_for(run, 60)
    done, size = list(world.done), len(lives(log))
    for _ in range(2):
        with pytest.raises(Cancelled):
            await node.run(world.agent(), "p")
    assert (world.done, len(lives(log)), len(of_kind(log, b.CancelAccepted))) == (done, size, 1)
    waited_at = next(entry.seq for entry in entries_of(log) if isinstance(entry.body, b.GateOpened))
    async with node.fork("p", "q", at_seq=waited_at):
        pass
    await node.approve("q", "go")
    assert await asyncio.wait_for(node.run(world.agent(), "q"), 60) == "shipped"


async def test_a_cancel_is_told_at_the_next_call(node: Node, log: MemoryLog) -> None:
    """A body that runs is not interrupted, and what it gave is journaled."""
    began, go_on, after = asyncio.Event(), asyncio.Event(), []

    async def slow() -> str:
        began.set()
        await go_on.wait()
        return "done"

    @agent("slow")
    async def run(process: Process, input: Any) -> Any:
        await process.step("slow", slow)
        await process.confirm()  # which reads the log
        await process.update("between", 1)
        after.append("content is still written")
        with pytest.raises(Cancelled):
            await process.step("next", slow)
        for call in (
            process.now,
            lambda: process.sleep(1),
            lambda: process.gate("g"),
            lambda: process.shared("s").get(),
        ):
            with pytest.raises(Cancelled):
                await call()
        after.append("and nothing else is")
        return "swallowed"

    task = asyncio.create_task(node.run(run, "p"))
    await began.wait()
    await node.cancel("p", "why")
    go_on.set()
    with pytest.raises(Cancelled):
        await asyncio.wait_for(task, 60)
    assert after == ["content is still written", "and nothing else is"]
    assert [one.outcome for one in of_kind(log, b.StepEnded)] == ["succeeded"]
    assert lives(log)[-2:] == ["stopping", "stopped"]
    assert not of_kind(log, b.Finished)


async def test_a_cancel_that_came_before_the_first_run_keeps_it_from_running(node: Node, log: MemoryLog) -> None:
    """Nothing was done, so there is nothing to take back."""
    await node.cancel("p", "never mind")
    world = World()
    with pytest.raises(Cancelled):
        await node.run(world.agent(), "p")
    assert world.done == []
    assert lives(log) == ["stopped"]


async def test_a_cancel_that_nobody_saw_before_the_result_changes_nothing(node: Node) -> None:
    """The result stands: it was too late."""

    @agent("quick")
    async def run(process: Process, input: Any) -> Any:
        await process.node.cancel("p")
        return "done"

    assert await node.run(run, "p") == "done"


async def test_code_that_swallows_it_for_ever_is_ended(node: Node, log: MemoryLog) -> None:
    """Even a loop that catches every exception and never waits."""

    @agent("stubborn")
    async def run(process: Process, input: Any) -> Any:
        while True:
            with suppress(Exception):
                await process.gate("go")

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: "awaiting" in lives(log))
    await node.cancel("p")
    with pytest.raises(Cancelled):
        await asyncio.wait_for(task, 60)
    assert lives(log)[-1] == "stopped"


async def test_a_nested_call_that_is_cancelled_is_no_failure_of_the_step_around_it(node: Node, log: MemoryLog) -> None:
    """Nor is it tried again."""

    @agent("nested")
    async def run(process: Process, input: Any) -> Any:
        async def outer() -> Any:
            return await process.gate("go")

        return await process.step("outer", outer, retry=Retry(attempts=5))

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: "awaiting" in lives(log))
    await node.cancel("p")
    with pytest.raises(Cancelled):
        await asyncio.wait_for(task, 60)
    assert len(of_kind(log, b.StepStarted)) == 1
    assert not of_kind(log, b.StepEnded)


async def test_what_cannot_be_taken_back_is_tried_again_by_the_next_run(node: Node, log: MemoryLog) -> None:
    """It is loud: ``ObligationStuck``, failed; the code runs up to its first new call, to name the compensation."""
    world = World()
    world.breaks = True
    run = asyncio.create_task(node.run(world.agent(), "p"))
    await until(lambda: "awaiting" in lives(log))
    await node.cancel("p")
    clock = node.clock
    assert isinstance(clock, VirtualClock)
    ticking = asyncio.create_task(_tick(clock))
    with pytest.raises(ObligationStuck):
        await asyncio.wait_for(run, 60)
    assert lives(log)[-2:] == ["stopping", "failed"]
    assert (await node.recover("p")).state.owner is None
    ticking.cancel()


async def _tick(clock: VirtualClock) -> None:
    while True:
        await asyncio.sleep(0.005)
        clock.advance(60)


async def test_code_that_diverges_is_cancelled_all_the_same(node: Node, log: MemoryLog) -> None:
    """Its compensations are made; the divergence is the error's cause."""
    world = World()

    def version(number: int) -> Agent:
        @agent("shop", number)
        async def run(process: Process, input: Any) -> Any:
            await process.effect("book", world.do, "book", compensate=world.undo)
            await (process.gate("go") if number == 1 else process.step("renamed", world.do, "x"))

        return run

    run = asyncio.create_task(node.run(version(1), "p"))
    await until(lambda: "awaiting" in lives(log))
    run.cancel()
    await asyncio.wait([run])
    await node.cancel("p")
    with pytest.raises(Cancelled) as caught:
        await asyncio.wait_for(node.run(version(2), "p"), 60)
    assert isinstance(caught.value.__cause__, ReplayDivergence)
    assert world.done == ["book", "unbook"]


async def test_in_plain_mode_a_wait_is_cancelled_too(node: Node, log: MemoryLog) -> None:
    """Leaving the block takes back and stops; a message that was received is the program's own."""
    world = World()
    await node.cancel("q", "yours")
    async with node.open("q") as process:
        assert (await process.receive()).name == "yours"
        assert await process.step("talk", world.do, "talk") == "talk"
    with pytest.raises(Cancelled):
        async with node.open("p") as process:
            await process.effect("book", world.do, "book", compensate=world.undo)
            await node.cancel("p")
            await process.gate("go")
    assert world.done == ["talk", "book", "unbook"]
    assert lives(log) == ["stopped"]


async def test_a_cancel_survives_a_crash_anywhere() -> None:
    """Cut after each entry: whoever runs it again ends what is left; each thing is taken back once, with its key."""
    whole, world = MemoryLog(partitions=1), World()

    async def cancelled(node: Node, world: World) -> None:
        await runtime_of(node).append_external("p", b.CancelRequested("enough"), entry_id=bytes(15) + b"1")
        with pytest.raises(Cancelled):
            await node.run(world.agent(), "p", take_over=True)

    async def first(node: Node) -> None:
        run = asyncio.create_task(node.run(world.agent(), "p"))
        await until(lambda: "awaiting" in lives(whole))
        await cancelled_by(node)
        with pytest.raises(Cancelled):
            await run

    async def cancelled_by(node: Node) -> None:
        await runtime_of(node).append_external("p", b.CancelRequested("enough"), entry_id=bytes(15) + b"1")

    await on_node(whole, first, VirtualClock(skips=False))
    assert lives(whole)[-2:] == ["stopping", "stopped"]
    for log in cuts(whole):
        settled = {body.key for body in of_kind(log, b.EffectSettled)}
        began = {body.key for body in of_kind(log, b.EffectIntended)}
        again = World()
        await on_node(log, lambda node, again=again: cancelled(node, again))  # type: ignore[misc]  # a default
        state = (await on_node(log, lambda node: node.recover("p"))).state
        assert (state.lifecycle, state.obligations, state.cancelled) == ("stopped", (), "enough")
        undone = [body.key for body in bodies(log) if isinstance(body, b.EffectSettled) and "undo/" in body.key]
        assert len(set(undone)) == len(undone)
        assert {key.removeprefix("undo/") for key in undone} >= {key for key in began if not key.startswith("undo/")}
        names = {"undo/pay:1": "unpay", "undo/book:1": "unbook"}
        assert not [names[key] for key in settled & names.keys() if names[key] in again.done]
