"""Many runs that one worker goes on with at once, as after a crash of another one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from seekpoint.producers import Client, Node, Process, Worker, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.opening import Opener, OpenRequest
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import JournalUnavailable

RUNS = 90


@agent("double")
async def double(process: Process, number: int) -> int:
    return await process.step("double", lambda: number * 2)


async def test_the_first_of_many_runs_begins_before_the_last_one_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker opens some processes at a time, and runs them all."""
    opens, under_way, numbers, opened = Opener.open, 0, [], set[str]()

    async def counted(self: Opener, request: OpenRequest) -> Process:
        nonlocal under_way
        under_way += 1
        numbers.append(under_way)
        opened.add(request.process_id)
        try:
            return await opens(self, request)
        finally:
            under_way -= 1

    monkeypatch.setattr(Opener, "open", counted)
    log = MemoryLog()
    async with Client.in_memory(log) as client, asyncio.timeout(30):
        runs = [await client.submit(double, f"case-{number}", number) for number in range(RUNS)]
        async with Worker.in_memory([double], log):
            assert [await run.result() for run in runs] == [2 * number for number in range(RUNS)]
    assert len(opened) == RUNS  # a worker may look at one twice: what it knows of a process may be old
    assert 8 < max(numbers) <= 32


async def test_looks_at_heartbeats_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look answers who asked before it began. One that fails does not answer: the next caller looks itself."""
    async with Node.in_memory(MemoryLog(), heartbeat_interval_s=10.0) as node, asyncio.timeout(30):
        heartbeater = runtime_of(node).heartbeater
        began, may_end, fails, looks = threading.Event(), threading.Event(), [False, True], 0

        def observe() -> None:
            nonlocal looks
            looks += 1
            began.set()
            may_end.wait(20)
            if fails and fails.pop(0):
                raise JournalUnavailable("away")

        monkeypatch.setattr(heartbeater.liveness, "observe", observe)
        first = asyncio.ensure_future(heartbeater.look())
        await asyncio.to_thread(began.wait, 20)
        others = [asyncio.ensure_future(heartbeater.look()) for _ in range(10)]
        await asyncio.sleep(0)
        may_end.set()
        await first
        outcomes = await asyncio.gather(*others, return_exceptions=True)
        assert [type(one) for one in outcomes if one is not None] == [JournalUnavailable]
        monkeypatch.undo()
    assert looks == 3, "the first one, the one that failed, and the one that the others shared"
