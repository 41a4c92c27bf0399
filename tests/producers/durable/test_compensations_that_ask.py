"""Compensations that ask their process for more: steps, mail, gates, time. They are made as any other is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import cuts, of_kind, on_node, until
from seekpoint.producers import Agent, Node, Process, Retry, VirtualClock, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled, EffectFailed


class Shop:
    """Books rooms; a cancellation there takes a letter, an answer and some time."""

    def __init__(self, *, breaks: int = 0) -> None:
        self.breaks = breaks
        self.letters: list[int] = []
        self.unbooked: list[int] = []
        self.process: Process | None = None

    async def write(self, room: int) -> None:
        self.letters.append(room)

    async def unbook(self, room: int) -> None:
        assert self.process is not None
        await self.process.step("letter", self.write, room)
        await self.process.sleep(60)
        if self.breaks:
            self.breaks -= 1
            raise OSError("the line is bad")
        assert await self.process.gate("sure")
        assert (await self.process.receive("receipt")).payload == "paid back"
        self.unbooked.append(room)

    async def book_two(self, process: Process, in_turns: bool) -> None:
        self.process = process
        if not in_turns:
            for room in (1, 2):
                await process.effect("book", str, room, compensate=self.unbook)
            return
        async for turn in process.turns():
            await process.effect("book", str, turn.number, compensate=unbook)
            if turn.number == 2:
                return


SHOPS: list[Shop] = []


async def unbook(room: int) -> None:
    """Found by its name where the turn that asked for it is not run again."""
    await SHOPS[-1].unbook(room)


async def answer(node: Node) -> None:
    """What both cancellations wait for."""
    for _ in range(2):
        await node.approve("p", "sure", in_advance=True)
        await node.signal("p", "receipt", "paid back")


def failing(shop: Shop, *, in_turns: bool = False) -> Agent:
    @agent("traveller")
    async def run(process: Process, input: Any) -> None:
        await shop.book_two(process, in_turns)
        raise ValueError("no flight")

    return run


@pytest.mark.parametrize("breaks", [0, 2])
async def test_a_cancelled_process_makes_compensations_that_ask(node: Node, log: MemoryLog, breaks: int) -> None:
    """They are not told to stop, as the code is: what is owed would stay owed. Another attempt writes no new letter."""
    shop = Shop(breaks=breaks)

    @agent("traveller")
    async def run(process: Process, input: Any) -> None:
        await shop.book_two(process, in_turns=False)
        await process.gate("go")

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: of_kind(log, b.GateOpened))
    await node.cancel("p", "ill")
    await answer(node)
    with pytest.raises(Cancelled):
        await asyncio.wait_for(task, 60)
    assert (shop.letters, shop.unbooked) == ([2, 1], [2, 1])
    state = (await node.recover("p")).state
    assert (state.lifecycle, state.obligations) == ("stopped", ())


async def test_a_process_that_diverged_makes_compensations_that_ask(node: Node, log: MemoryLog) -> None:
    """It is the code that is another one; what is owed is the same, and asks on its own."""
    shop, looks = Shop(), [1, 2]

    @agent("traveller")
    async def run(process: Process, input: Any) -> None:
        await shop.book_two(process, in_turns=False)
        await process.step("look", str, looks.pop(0))
        await process.gate("go")

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: of_kind(log, b.GateOpened))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await node.cancel("p", "ill")
    await answer(node)
    with pytest.raises(Cancelled):
        await asyncio.wait_for(node.run(run, "p"), 60)
    assert (shop.unbooked, (await node.recover("p")).state.obligations) == ([2, 1], ())
    assert not looks


async def test_a_child_of_a_compensation_is_not_cancelled_with_the_code(node: Node, log: MemoryLog) -> None:
    """It was begun to take something back."""

    @agent("clerk")
    async def clerk(process: Process, input: Any) -> Any:
        return await process.step("pay back", str, input)

    paid: list[str] = []

    @agent("traveller")
    async def run(process: Process, input: Any) -> None:
        async def pay_back(amount: int) -> None:
            paid.append(await process.spawn(clerk, "clerk-of-p", amount).result())

        await process.effect("pay", str, 5, compensate=pay_back)
        await process.gate("go")

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: of_kind(log, b.GateOpened))
    await node.cancel("p", "ill")
    with pytest.raises(Cancelled):
        await asyncio.wait_for(task, 60)
    assert paid == ["5"]


async def test_a_cancel_does_not_end_what_a_compensation_waits_for(node: Node, log: MemoryLog) -> None:
    """A run that failed takes back what it did; asked to stop meanwhile, it still does."""
    shop = Shop()
    task = asyncio.create_task(node.run(failing(shop), "p"))
    await until(lambda: of_kind(log, b.GateOpened))
    await node.cancel("p", "ill")
    await answer(node)
    with pytest.raises(ValueError, match="no flight"):
        await asyncio.wait_for(task, 60)
    assert (shop.letters, shop.unbooked) == ([2, 1], [2, 1])
    with pytest.raises(Cancelled):
        await node.run(failing(shop), "p")
    assert (await node.recover("p")).state.lifecycle == "stopped"


async def test_the_code_of_a_turn_runs_again_after_a_compensation_that_asked() -> None:
    """What was asked in it belongs to no turn, and nobody has to ask for it: the run does not diverge by it."""
    SHOPS[:] = [shop := Shop()]
    whole = MemoryLog(partitions=1)

    async def run(node: Node) -> None:
        await answer(node)
        with pytest.raises((ValueError, EffectFailed), match=r"no flight|compensated"):
            await node.run(failing(shop, in_turns=True), "p", take_over=True)

    await on_node(whole, run)
    assert shop.unbooked == [2, 1]
    for log in cuts(whole):
        await on_node(log, run, VirtualClock(patience_s=0))
        state = (await on_node(log, lambda node: node.recover("p"))).state
        assert (state.lifecycle, state.obligations) == ("failed", ())
        undone = [body.key for body in of_kind(log, b.EffectSettled) if body.key.startswith("undo/")]
        assert sorted(undone) == ["undo/1/book:1", "undo/2/book:1"]


async def test_a_further_attempt_of_an_effect_keeps_what_succeeded_inside_it(node: Node) -> None:
    """As one of a step does: what it asked before is answered, what failed is tried again, nothing is refused."""
    looked: list[str] = []
    breaks = [OSError("first"), None, OSError("second"), None, None]

    async def look(what: str) -> str:
        looked.append(what)
        if what == "there" and (failure := breaks.pop(0)) is not None:
            raise failure
        return what

    async with node.open("p") as process:

        async def body() -> list[str]:
            found = [await process.step("look", look, where) for where in ("here", "there")]
            if (failure := breaks.pop(0)) is not None:
                raise failure
            return found

        retry = Retry(attempts=4, backoff_s=0.0, jitter=0.0)
        assert await process.effect("send", body, retry=retry) == ["here", "there"]
        assert process.state.calls["send:1"].attempt == 3
    assert looked == ["here", "there", "there"]
