"""The real node code under random faults, in memory: several nodes, one process, a log that loses acknowledgements.

Each run has a seed; its checker folds the log with its own few lines. A run in which nothing succeeded fails.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

import pytest

from agent_programs import Found, decode, fold_by_checker
from late_log import FAST, LateLog, break_things
from open_processes import handle_of
from seekpoint.producers import Node, Process
from seekpoint.producers.writer.pending import HandleStatus
from seekpoint.schemas import MemoryLog, fold, new_state
from seekpoint.schemas.errors import Fenced, SeekpointError


@dataclass
class World:
    """One random history."""

    seed: int
    told: dict[str, str] = field(default_factory=dict)
    """Value -> the session that was told it is in the log."""
    sent: set[str] = field(default_factory=set)
    ends: dict[str, type[SeekpointError]] = field(default_factory=dict)
    """Session -> the error it ended with."""
    over: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.log = LateLog(self.seed)

    async def work(self, name: str) -> None:
        """A node that opens the process again and again and appends, alone or in bursts."""
        async with Node.in_memory(self.log, node_id=name, **FAST) as node:
            session = 0
            while not self.over:
                session += 1
                try:
                    await self.hold(node, f"{name}/{session}")
                except SeekpointError:
                    await asyncio.sleep(self.random.uniform(0, 0.05))

    async def hold(self, node: Node, session: str) -> None:
        try:
            async with node.open("p", take_over=self.random.random() < 0.4) as process:
                for number in range(self.random.randint(1, 30)):
                    values = [f"{session}/{number}/{part}" for part in range(self.random.choice([1, 1, 1, 4]))]
                    self.sent.update(values)
                    outcomes = await asyncio.gather(
                        *(process.record("work", value) for value in values),
                        *(process.say("user", value) for value in values[1:]),
                        return_exceptions=True,
                    )
                    if self.random.random() < 0.25:
                        await process.confirm()
                    for value, outcome in zip(values, outcomes[: len(values)], strict=True):
                        if isinstance(outcome, BaseException):
                            raise outcome
                        self.told[value] = session
                    self.look_at(process)
                    await asyncio.sleep(self.random.choice([0, 0, 0.002, 0.02]))
        except SeekpointError as exc:
            self.ends[session] = type(exc)
            raise

    def look_at(self, process: Process) -> None:
        """I6 on the owner's side: with nothing on its way, its state is the fold of what it has read and written."""
        handle = handle_of(process)
        if handle.status is HandleStatus.OPEN and not handle.pending and handle.unconfirmed is None:
            state = new_state()
            for batch in MemoryLog.read(self.log, 0, 0, handle.position):
                for record in batch.records:
                    state = fold(state, record.offset, self.log.codec.decode(record.value))
            assert process.state.hash == state.hash

    async def run(self, seconds: float) -> None:
        tasks = [asyncio.create_task(self.work(f"n{index}")) for index in range(self.random.choice([1, 2, 3]))]
        tasks.append(asyncio.create_task(break_things(self.log, self.random, lambda: self.over, 0.2)))
        began = time.monotonic()
        while time.monotonic() - began < seconds or (  # noqa: ASYNC110  # a wall clock is what it waits for
            len(self.told) <= 20 and time.monotonic() - began < 20
        ):
            await asyncio.sleep(0.1)  # a busy machine gets the time to prove something
        self.over = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)

    def found(self) -> Found:
        batches = self.log.read(0, 0, self.log.watermarks(0).high)
        return fold_by_checker(decode(record.value or b"") for batch in batches for record in batch.records)


@pytest.mark.parametrize("seed", range(12))
async def test_random_faults_lose_nothing_double_nothing_and_need_nobody(seed: int) -> None:
    """I1 to I5, and no process degraded: whatever was told is applied once, unless its owner was told Fenced."""
    world = World(seed)
    await world.run(1.0)
    found = world.found()
    applied = set(found.applied)
    lost = {session: world.ends.get(session) for value, session in world.told.items() if value not in applied}
    assert set(lost.values()) <= {Fenced}, lost
    assert applied <= world.sent
    assert len(world.told) > 20, "hardly anything succeeded: the run proves nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
async def test_random_faults_for_longer(seed: int) -> None:
    """The same over three hundred seeds."""
    await test_random_faults_lose_nothing_double_nothing_and_need_nobody(seed)
