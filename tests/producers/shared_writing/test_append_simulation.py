"""Shared writing under random faults, in memory: nodes write to one process at once, on a log that loses, delays, ends.

The checker folds the log with its own few lines. It knows of each call where the log ended when the call began and when
it ended: so it can tell whether each answer was true at some moment in between (linearizability). Each run has a seed.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_programs import Found, _claim, _own, decode, fold_by_checker
from late_log import FAST, LateLog, break_things
from seekpoint.producers import Appended, Node, SharedProcess
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.errors import AppendConflict, AppendTimeout, ConfirmTimeout, HandleClosed, SeekpointError

_IN_DOUBT = (AppendTimeout, ConfirmTimeout, HandleClosed)
"""The errors that leave open whether an entry was written. After any other error it must not be there."""


@dataclass
class Call:
    """A call, its outcome, and the ends of the log before and after it."""

    value: str
    expected_seq: int | None
    began: int
    ended: int = -1
    outcome: Appended | BaseException | None = None


@dataclass
class World:
    """One random history."""

    seed: int
    calls: list[Call] = field(default_factory=list)
    reads: list[tuple[int, int, int]] = field(default_factory=list)
    """The ends of the log before and after a read, and the seq that it found."""
    over: bool = False
    restarts: int = 0
    taken: int = 0
    """How often one owner opened the process meanwhile."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.log = LateLog(self.seed)

    @property
    def end(self) -> int:
        return self.log.extent(0).end

    async def work(self, name: str) -> None:
        """A node that writes from several tasks at once. Now and then it is closed in the middle, and started again."""
        while not self.over:
            self.restarts += 1
            patience_s = self.random.choice([0.05, 0.05, 1.0])
            node = await Node.in_memory(
                self.log,
                node_id=f"{name}.{self.restarts}",
                confirm_timeout_s=0.2,
                **{**FAST, "append_timeout_s": patience_s},
            )
            writers = [asyncio.create_task(self.write(node, f"{name}.{self.restarts}.{part}")) for part in range(3)]
            await asyncio.sleep(self.random.uniform(0.1, 0.6))
            for writer in writers[: self.random.randrange(3)]:
                writer.cancel()
            if self.random.random() < 0.5:
                await node.close()
            await asyncio.gather(*writers, return_exceptions=True)
            await node.close()

    async def write(self, node: Node, name: str) -> None:
        number = 0
        until = time.monotonic() + self.random.uniform(0.1, 0.7)
        try:
            thread = await node.open("p", shared=True)
            while time.monotonic() < until and not self.over:
                number += 1
                await self.append(thread, f"{name}.{number}")
                if self.random.random() < 0.2:
                    await self.read(thread)
                if self.random.random() < 0.03:
                    await self.own(node)
                await asyncio.sleep(self.random.choice([0, 0, 0.002, 0.02]))
        except SeekpointError:
            return  # the node was closed, or the log cannot be read

    async def append(self, thread: SharedProcess, value: str) -> None:
        """Append; where it is in doubt, repeat it with its id, as a client of a web server does."""
        expected = thread.state.seq if self.random.random() < 0.4 else None
        entry_id = new_id() if self.random.random() < 0.5 else None
        for _ in range(3):
            call = Call(value, expected, self.end)
            self.calls.append(call)
            try:
                call.outcome = await thread.record("work", value, expected_seq=expected, entry_id=entry_id)
            except BaseException as exc:
                call.outcome = exc
            call.ended = self.end
            if isinstance(call.outcome, asyncio.CancelledError):
                raise call.outcome
            if isinstance(call.outcome, AppendConflict):
                assert call.outcome.state.seq == call.outcome.seq
            if entry_id is None or not isinstance(call.outcome, _IN_DOUBT):
                return

    async def read(self, thread: SharedProcess) -> None:
        began = self.log.watermarks(0).high
        state = await thread.read()
        self.reads.append((began, self.end, state.seq))

    async def own(self, node: Node) -> None:
        """Open the process for one owner for a moment."""
        try:
            async with node.open("p") as process:
                self.taken += 1
                await process.update("owner", 1)
        except SeekpointError:
            await asyncio.sleep(0.01)

    async def run(self, seconds: float) -> None:
        tasks = [asyncio.create_task(self.work(f"n{index}")) for index in range(self.random.choice([2, 3]))]
        tasks.append(asyncio.create_task(break_things(self.log, self.random, lambda: self.over, 0.3)))
        began = time.monotonic()
        while time.monotonic() - began < seconds or (  # noqa: ASYNC110  # a wall clock is what it waits for
            self.written <= 20 and time.monotonic() - began < 20
        ):
            await asyncio.sleep(0.1)  # a busy machine gets the time to prove something
        self.over = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)

    @property
    def written(self) -> int:
        return sum(isinstance(call.outcome, Appended) for call in self.calls)


class Judge:
    """What the log says of every answer."""

    def __init__(self, world: World) -> None:
        records = [one for batch in world.log.read(0, 0, world.end) for one in batch.records]
        entries = [decode(record.value or b"") for record in records]
        self.found: Found = fold_by_checker(entries)
        self.applied: dict[str, tuple[int, int]] = {}
        """By value: the seq and the offset of the entry that was applied."""
        partial = Found()
        seqs = []
        for offset, entry in enumerate(entries):
            partial = _step(partial, entry)
            if len(partial.applied) > len(self.applied):
                self.applied[partial.applied[-1]] = partial.seq, offset
            seqs.append(partial.seq)
        self.seq_below = [0, *seqs]
        """By offset: the process's seq with everything below it."""

    def seqs_between(self, began: int, ended: int) -> set[int]:
        return set(self.seq_below[began : ended + 1])

    def check(self, call: Call) -> None:
        where = self.applied.get(call.value)
        if isinstance(call.outcome, Appended):
            assert where == (call.outcome.seq, call.outcome.offset), call
            assert where[1] < call.ended, call
            assert call.outcome.is_repeated or where[1] >= call.began, call
            assert call.expected_seq in (None, where[0] - 1), call
        elif isinstance(call.outcome, AppendConflict):
            assert where is None, call
            assert call.outcome.seq in self.seqs_between(call.began, call.ended), call
            assert call.outcome.seq != call.expected_seq, call
        elif not isinstance(call.outcome, (*_IN_DOUBT, asyncio.CancelledError)):
            assert where is None, call  # nothing was written


def _step(found: Found, entry: dict[str, Any]) -> Found:
    """Fold one more entry."""
    name, body = entry["body"]
    if name == "seekpoint.Claim":
        _claim(found, entry, body)
    elif entry["seq"] is not None:
        _own(found, entry, name, body)
    return found


@pytest.mark.parametrize("seed", range(6))
async def test_appends_of_nodes_under_faults_are_linearizable(seed: int) -> None:
    """Each returned append is applied once, within its call; each conflict and each read was true within its call."""
    world = World(seed)
    await world.run(1.0)
    judge = Judge(world)
    final = {call.value: call for call in world.calls}
    for call in final.values():
        judge.check(call)
    for began, ended, seq in world.reads:
        assert seq in judge.seqs_between(began, ended), (began, ended, seq)
    assert judge.applied.keys() <= final.keys()
    assert world.written > 20, "hardly anything succeeded: the run proves nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
async def test_appends_of_nodes_under_faults_for_longer(seed: int) -> None:
    """The same over three hundred seeds."""
    await test_appends_of_nodes_under_faults_are_linearizable(seed)
