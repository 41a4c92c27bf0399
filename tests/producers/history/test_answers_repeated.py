"""Runs that were given other answers, run again: the answer that counted is repeated, not the one it replaced."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from seekpoint.producers import Effect, HistoryPoint, Node, Process, agent, check_replay
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.history.later_calls import ended_after
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.state.process_state import new_state

done: Counter[str] = Counter()
"""The ledger: how often each body ran."""


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    done.clear()


async def pay(amount: int) -> int:
    done["paid"] += 1
    return amount


@agent("asking")
async def asking(process: Process, given: None = None) -> Any:
    """Ask a person, unless the decision has another answer: then pay."""
    if await process.decide("choose", lambda request: done.update(["choose"]) or "ask", {"order": 1}) == "ask":
        return (await process.gate("go")).outcome
    await process.effect("pay", pay, 10, semantics=Effect.AT_MOST_ONCE)
    return await process.step("last", lambda: done.update(["last"]) or "last")


async def cut_off_at_gate(node: Node, run: Any, process_id: str) -> None:
    task = asyncio.ensure_future(node.run(run, process_id))
    async with asyncio.timeout(10):
        while not (await node.recover(process_id, missing_ok=True)).state.waits_for:
            assert not task.done(), task
            await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def by_a_rewind(node: Node) -> None:
    await node.rewind("p", answers={"choose:1": "pay"})


async def by_a_promotion(node: Node) -> None:
    async with node.fork("p", "q", answers={"choose:1": "pay"}, effects="live"):
        pass
    await node.run(asking, "q")
    await node.promote("q", prefer="fork")


@pytest.mark.parametrize("correct", [by_a_rewind, by_a_promotion])
async def test_a_rerun_repeats_the_answer_that_somebody_gave(correct: Any) -> None:
    """With the same code nothing is executed, and the outcome is the same; so in a permissive fork of the start."""
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, asking, "p")
        await correct(node)
        assert await node.run(asking, "p") == "last"
        assert done == {"choose": 1, "paid": 1, "last": 1}
        found = await node.rerun(asking, "p", timeout_s=10)
        assert (found.error, found.is_same_outcome, found.difference.is_empty) == (None, True, True)
        async with node.fork("p", "f", at=HistoryPoint.start(), permissive=True):
            pass
        assert await asyncio.wait_for(node.run(asking, "f"), 10) == "last"
        assert done == {"choose": 1, "paid": 1, "last": 1}


async def test_a_rerun_of_a_fork_repeats_the_answer_that_the_fork_began_with() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, asking, "p")
        async with node.fork("p", "q", answers={"choose:1": "pay"}, effects="live"):
            pass
        assert await node.run(asking, "q") == "last"
        found = await node.rerun(asking, "q", timeout_s=10)
        assert (found.error, found.is_same_outcome, found.difference.is_empty) == (None, True, True)
        assert done == {"choose": 1, "paid": 1, "last": 1}


async def take_back(amount: int, *, output: Any) -> None:
    done["took back"] += 1


@agent("failing")
async def failing(process: Process, given: None = None) -> str:
    """Pay, then fail the first time, which takes the payment back."""
    await process.effect("pay", pay, 10, compensate=take_back)
    if not done["took back"]:
        raise ValueError("the bank is closed")
    return "paid"


@pytest.mark.parametrize(("effects", "paid"), [("live", 2), ("recorded", 1)])
async def test_an_effect_that_was_taken_back_does_not_answer_a_fork_that_acts_for_real(effects: str, paid: int) -> None:
    """Nothing of it is left outside, so the fork pays. A fork that makes no effects gets the record."""
    async with Node.in_memory(MemoryLog()) as node:
        with pytest.raises(ValueError, match="closed"):
            await node.run(failing, "p")
        assert done == {"paid": 1, "took back": 1}
        async with node.fork("p", "q", at=HistoryPoint.start(), effects=effects, permissive=True):
            pass
        assert await node.run(failing, "q") == "paid"
        assert done == {"paid": paid, "took back": 1}


async def test_the_ends_of_a_run_with_other_answers_are_those_that_a_fold_finds() -> None:
    """The two ways to read them agree: from the whole history, and from a moment on."""
    async with Node.in_memory(log := MemoryLog()) as node:
        await cut_off_at_gate(node, asking, "p")
        await by_a_rewind(node)
        history = [one async for one in node.entries("p")]
    found = RecordedRun.of(history, log.limits).ended
    entries = ((one.offset, one.entry) for one in history)
    assert found == [*ended_after(new_state(), entries, Limits())]
    assert [(one.key, one.call.output) for one in found] == [("choose:1", '"ask"'), ("choose:1", '"pay"')]


@agent("turning")
async def turning(process: Process, given: None = None) -> list[str]:
    """Two turns, each with a decision and, by its answer, a gate."""
    found = []
    async for turn in process.turns():
        choice = await process.decide("choose", lambda request: "ask", {"turn": turn.number})
        if choice == "ask":
            choice = (await process.gate("go")).outcome
        found.append(choice)
        if turn.number == 2:
            break
    return [*found, await process.step("last", lambda: "last")]


async def test_the_code_is_checked_from_the_turn_that_a_promotion_brought() -> None:
    """The turns that the fork ended are in its own history only, as those of a parent are for a fork."""
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, turning, "p")
        async with node.fork("p", "q", answers={"1/choose:1": "no"}):
            pass
        await cut_off_at_gate(node, turning, "q")
        await node.promote("q", prefer="fork")
        await node.approve("p", "go")
        assert await asyncio.wait_for(node.run(turning, "p"), 10) == ["approved", "last"]
        checked = await check_replay(turning, [one async for one in node.entries("p")])
        assert (checked.ok, checked.calls) == (True, 3), checked
        end = (await node.recover("p")).state.seq
        async with node.fork("p", "r", at=end - 1):
            pass
        await node.approve("r", "go", in_advance=True)
        assert await asyncio.wait_for(node.run(turning, "r"), 10) == ["approved", "last"]


async def test_after_going_back_behind_a_promotion_the_code_is_checked_from_there() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, turning, "p")
        async with node.fork("p", "q", answers={"1/choose:1": "no"}):
            pass
        await cut_off_at_gate(node, turning, "q")
        await node.promote("q", prefer="fork")
        await node.rewind("p", HistoryPoint.after("1/choose:1"))
        for _ in range(2):
            await node.approve("p", "go", in_advance=True)
        assert await asyncio.wait_for(node.run(turning, "p"), 10) == ["approved", "approved", "last"]
        checked = await check_replay(turning, [one async for one in node.entries("p")])
        assert checked.ok, checked
