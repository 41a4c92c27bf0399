"""Repeated and pipelined writes of owners under random faults, in memory: nothing is lost, nothing is written twice.

Clients have items to write, each with an id, and repeat a burst with the same ids until an owner has confirmed it: on
the same handle, on a later one, on another node. The checker folds the log with its own few lines.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import pytest

from agent_programs import decode, fold_by_checker
from late_log import FAST, LateLog, break_things
from seekpoint.producers import Node, Process
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.errors import SeekpointError


class World:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = LateLog(seed)
        self.confirmed: list[str] = []
        self.repeated = 0
        self.over = False

    async def work(self, name: str) -> None:
        """A client: it writes burst after burst, and does not go on before one is confirmed."""
        async with Node.in_memory(self.log, node_id=name, **{**FAST, "heal_timeout_s": 0.3}) as node:
            number = 0
            while not self.over:
                number += 1
                burst = {f"{name}/{number}/{part}": new_id() for part in range(self.random.choice([1, 1, 3, 60]))}
                while not (self.is_late or await self.written(node, burst)):  # noqa: ASYNC110  # it tries again
                    await asyncio.sleep(self.random.uniform(0, 0.05))

    async def written(self, node: Node, burst: dict[str, bytes]) -> bool:
        """Whether the burst was confirmed: every entry of it is applied then."""
        try:
            async with node.open("p", take_over=self.random.random() < 0.3) as process:
                for _ in range(self.random.choice([1, 1, 2])):
                    await self.send(process, burst)
                await process.confirm()
                self.confirmed += burst
                return True
        except SeekpointError:
            return False

    async def send(self, process: Process, burst: dict[str, bytes]) -> None:
        wait = self.random.random() < 0.3
        for value, entry_id in burst.items():
            done = await process.record("work", value, entry_id=entry_id, wait=wait)
            self.repeated += done.is_repeated
        await process.flush()

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.until

    async def run(self, seconds: float) -> None:
        began = time.monotonic()
        self.until = began + 60
        tasks = [asyncio.create_task(self.work(f"n{index}")) for index in range(2)]
        tasks.append(asyncio.create_task(break_things(self.log, self.random, lambda: self.over, 0.2)))
        while time.monotonic() - began < seconds or (  # noqa: ASYNC110  # a wall clock is what it waits for
            (len(self.confirmed) <= 20 or not self.repeated) and time.monotonic() - began < 20
        ):
            await asyncio.sleep(0.1)  # a busy machine gets the time to prove something
        self.over = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_repeated_with_its_id_is_applied_once(seed: int) -> None:
    """Whoever wrote it first, and whatever became of that; in the order of its burst."""
    world = World(seed)
    await world.run(1.0)
    batches = world.log.read(0, 0, world.log.watermarks(0).high)
    applied = fold_by_checker(decode(one.value or b"") for batch in batches for one in batch.records).applied
    assert [value for value, count in Counter(applied).items() if count > 1] == []
    assert set(world.confirmed) <= set(applied)
    by_burst: dict[str, list[int]] = {}
    for value in applied:
        burst, _, part = value.rpartition("/")
        by_burst.setdefault(burst, []).append(int(part))
    assert all(parts == [*range(len(parts))] for parts in by_burst.values())
    assert len(world.confirmed) > 20, "hardly anything succeeded: the run proves nothing"
    assert world.repeated, "nothing was repeated: the run proves nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
async def test_what_is_repeated_with_its_id_for_longer(seed: int) -> None:
    """The same over two hundred seeds."""
    await test_what_is_repeated_with_its_id_is_applied_once(seed)
