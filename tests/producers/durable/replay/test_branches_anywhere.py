"""Branches that feed each other, in random programs that are killed after any entry: they end as if nothing was.

What a branch hands to another one by a queue, whom it cancels and how many may run at once depends on answers only. So
nobody waits in vain for what has to be asked before, and no run that resumes asks for anything else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from cuts import cut_after, on_node
from seekpoint.producers import Agent, Process, agent
from seekpoint.producers.durable.replay.completion_order import CompletionOrder
from seekpoint.schemas import MemoryLog

Plan = list[list[tuple[Any, ...]]]


def plan_of(chance: random.Random, depth: int = 0) -> Plan:
    """What each branch does; one waits only for those before it."""
    kinds = ["step", "step", "write", "put", "sleep", "nested", "both", "cancels"]
    kinds += ["branches"] if depth == 0 else []
    plan: Plan = []
    for index in range(chance.randint(2, 4)):
        chosen = chance.choices([*kinds, "get"] if index else kinds, k=chance.randint(1, 3))
        plan.append([(kind, _detail(chance, kind, index, depth)) for kind in chosen])
    return plan


def _detail(chance: random.Random, kind: str, index: int, depth: int) -> Any:
    if kind == "branches":
        return plan_of(chance, depth + 1)
    return chance.randrange(index) if kind == "get" else chance.randint(0, 5)


async def work(rounds: int) -> int:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return rounds


async def for_ever() -> None:
    await asyncio.Event().wait()


async def branches(process: Process, plan: Plan, path: str) -> list[Any]:
    """What each branch has seen; two run at once in every other program."""
    queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in plan]
    bound = asyncio.Semaphore(2 + len(plan) % 2 * 9)

    async def branch(index: int) -> list[Any]:
        async with bound:
            seen = [await perform(process, one, queues, index, path) for one in plan[index]]
        for _ in range(9):
            queues[index].put_nowait("over")
        return seen

    return list(await asyncio.gather(*map(branch, range(len(plan)))))


async def perform(
    process: Process, action: tuple[Any, ...], queues: list[asyncio.Queue[Any]], index: int, path: str
) -> Any:
    kind, detail = action
    if kind == "step":
        return await process.step("step", work, detail)
    if kind == "write":
        return (await process.update(f"{path}{index}", detail)) and None
    if kind == "put":
        return queues[index].put_nowait(detail)
    if kind == "get":
        return await queues[detail].get()
    if kind == "sleep":
        return await process.sleep(detail)
    if kind == "both":
        return await asyncio.gather(*(process.step("both", work, rounds) for rounds in (detail, 1)))
    if kind == "nested":
        return await process.step("outer", _nested(process), detail)
    return await (branches(process, detail, f"{path}{index}_") if kind == "branches" else cancels(process, detail))


def _nested(process: Process) -> Callable[[int], Any]:
    async def body(rounds: int) -> list[int]:
        return [await process.step("inner", work, number) for number in (rounds, 1)]

    return body


async def cancels(process: Process, rounds: int) -> None:
    async def beside() -> None:
        try:
            await process.step("look", work, 1)
            await process.step("watch", for_ever)
        finally:
            await process.step("tidy", str, 1)

    task = asyncio.create_task(beside())
    await process.step("work", work, rounds)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("seed", range(6))
async def test_branches_that_feed_each_other_are_killed_after_any_entry(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once more in the run that resumed: the result is the same, and no answer was waited for by the clock."""
    lost: list[str] = []
    lose = CompletionOrder._lose_patience

    def noted(order: CompletionOrder) -> None:
        lost.append("patience")
        lose(order)

    monkeypatch.setattr(CompletionOrder, "_lose_patience", noted)
    monkeypatch.setattr("seekpoint.producers.durable.replay.completion_order._PATIENCE_S", 0.5)
    chance = random.Random(seed)
    run, log = program_of(plan_of(chance)), MemoryLog(partitions=1)
    wanted = await ended(log, run)
    high = log.watermarks(0).high
    for entries in sorted(chance.sample(range(1, high), min(12, high - 1))):
        crashed = cut_after(log, entries)
        assert await ended(crashed, run) == wanted, entries
        again = cut_after(crashed, chance.randrange(entries, crashed.watermarks(0).high))
        assert await ended(again, run) == wanted, entries
    assert not lost


def program_of(plan: Plan) -> Agent:
    @agent("fed")
    async def run(process: Process, input: Any) -> Any:
        return [await branches(process, plan, "b"), await process.step("end", str, 1)]

    return run


async def ended(log: MemoryLog, run: Agent) -> Any:
    async with asyncio.timeout(20):
        return await on_node(log, lambda node: node.run(run, "p", take_over=True))
