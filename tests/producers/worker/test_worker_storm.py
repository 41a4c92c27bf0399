"""Workers that come, go and vanish at random while runs wait, sleep and are approved. On a log in memory."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from lost_workers import vanish
from seekpoint.producers import Client, Process, Worker, agent
from seekpoint.schemas import MemoryLog

RUNS = 40
DONE: Counter[str] = Counter()
"""How often each step was executed."""


@agent("order")
async def order(process: Process, number: int) -> str:
    def count(name: str) -> str:
        DONE[f"{process.process_id}/{name}"] += 1
        return name

    await process.step("one", count, "one")
    await process.sleep(random.Random(number).uniform(0.0, 0.3))
    await process.step("two", count, "two")
    answer = await process.gate("approve", prompt=number)
    await process.step("three", count, "three")
    return answer.outcome


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_run_ends_once_whoever_comes_and_goes(seed: int) -> None:
    """Each step that ended is executed once; all runs are approved."""
    DONE.clear()
    chance, log = random.Random(seed), MemoryLog()
    workers: list[Worker] = []

    async def join() -> None:
        workers.append(await Worker.in_memory([order], log, grace_s=0.05, drain_s=0.1, runs_max=10).start())

    async def approve(client: Client, process_id: str) -> None:
        while "approve:1" not in (await client.status(process_id)).waits_for:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.05)
        await asyncio.sleep(chance.uniform(0.5, 3.0))  # long enough for its run to leave memory, or its worker to die
        await client.approve(process_id, "approve")

    async with Client.in_memory(log) as client, asyncio.timeout(60):
        await join()
        runs = [await client.submit(order, f"{seed}-{number}", number) for number in range(RUNS)]
        results = asyncio.gather(*(run.result() for run in runs), *(approve(client, run.id) for run in runs))
        while not results.done():
            await asyncio.sleep(chance.uniform(0.05, 0.4))
            if len(workers) > 1 and chance.random() < 0.5:
                leaves = workers.pop(chance.randrange(len(workers)))
                await (leaves.close() if chance.random() < 0.5 else vanish(leaves, random.uniform(0.0, 0.3)))
            elif len(workers) < 4:
                await join()
        assert (await results)[:RUNS] == ["approved"] * RUNS
        await asyncio.gather(*(worker.close() for worker in workers))
        states = [await client.state(run.id) for run in runs]
    assert all(state.finished for state in states)
    takeovers = sum(state.epoch - 1 for state in states)
    assert takeovers > RUNS / 2, "nobody was disturbed: the test proved nothing"
    repeated = sum(times - 1 for times in DONE.values())
    assert repeated <= takeovers
    assert len(DONE) == 3 * RUNS
