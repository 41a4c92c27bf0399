"""How long the thread that follows a tail waits for records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from idle_tailers import at_rest
from seekpoint.consumers.kafka.kafka_settings import tail_config
from seekpoint.producers import Node, Process, Worker, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.tail import tail_follower
from seekpoint.producers.tail.tail_follower import Follower
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import LogTruncated, SeekpointError
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.tail import Tail, TailBatch


@agent("double")
async def double(process: Process, number: int) -> int:
    return number * 2


class TimedTail:
    """A tail that notes how long each poll may wait, and gives what a test puts into ``batches``."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.batches: list[TailBatch] = []
        self.begun: list[tuple[int, int]] = []

    def poll(self, timeout_s: float) -> list[TailBatch]:
        self.waits.append(timeout_s)
        time.sleep(timeout_s)
        found, self.batches = self.batches, []
        return found

    def begin(self, partition: int, position: int) -> None:
        self.begun.append((partition, position))

    def end(self, partition: int) -> None: ...

    def close(self) -> None: ...


class Offsets:
    """Notes the offsets of all records."""

    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    def observe(self, batch: TailBatch) -> None:
        self._seen += [batch.record(index).offset for index in range(len(batch.keys))]

    def fail(self, error: SeekpointError) -> None:
        raise error


async def until(condition: Callable[[], bool], follower: Follower) -> None:
    """Return once the condition holds; keep the thread awake as one does who waits for any record."""
    async with asyncio.timeout(30):
        while not condition():  # the thread gives no event
            follower.wake()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("is_steady", [False, True])
async def test_it_polls_less_often_while_nothing_comes(monkeypatch: pytest.MonkeyPatch, is_steady: bool) -> None:
    """A worker whose runs only wait uses less of the processor; once something comes, it polls as often as before."""
    log, tail = MemoryLog(), TimedTail()
    monkeypatch.setattr(log, "tail", lambda is_steady: tail)
    follower = Follower(log, Settings(redis_url=None))
    follower.is_steady = is_steady
    follower.begin(0, 0, 1)
    follower.start(asyncio.get_running_loop(), lambda generation, batch: None)
    try:
        await until(lambda: len(tail.waits) > 3, follower)
        busy_s = tail.waits[0]
        await until(lambda: tail.waits[-1] > busy_s, follower)
        assert tail.waits[-1] == (40 if is_steady else 10) * busy_s
        tail.batches = [TailBatch(0, (), _no_record, 1)]
        await until(lambda: tail.waits[-1] == busy_s, follower)
    finally:
        follower.close()


async def test_it_polls_as_long_as_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers wait for any record, however long none comes. It pauses once nobody does."""
    log, tail = MemoryLog(), TimedTail()
    monkeypatch.setattr(log, "tail", lambda is_steady: tail)
    follower = Follower(log, Settings(redis_url=None))
    follower.start(asyncio.get_running_loop(), lambda generation, batch: None)
    try:
        follower.hold(True)
        async with asyncio.timeout(30):
            while follower.is_idle or not tail.waits:  # noqa: ASYNC110  # the thread gives no event
                await asyncio.sleep(0.02)
            while sum(tail.waits) < 4 * tail_follower._LINGER_S:
                assert not follower.is_idle
                await asyncio.sleep(0.02)
            follower.hold(False)
            while not follower.is_idle:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    finally:
        follower.close()


async def test_what_the_event_loop_has_from_elsewhere_is_not_read_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that writes alone takes its own records from their acknowledgements, and the thread pauses."""
    log, tail = MemoryLog(), TimedTail()
    monkeypatch.setattr(log, "tail", lambda is_steady: tail)
    follower = Follower(log, Settings(redis_url=None))
    follower.begin(0, 3, 1)
    follower.start(asyncio.get_running_loop(), lambda generation, batch: None)
    try:
        await until(lambda: len(tail.waits) > 0, follower)
        follower.passed(0, 7)
        async with asyncio.timeout(30):
            while not follower.is_idle:  # noqa: ASYNC110  # the thread gives no event
                await asyncio.sleep(0.005)
        await until(lambda: not follower.is_idle and len(tail.begun) > 1, follower)
        assert tail.begun == [(0, 3), (0, 7)]
        follower.begin(0, 5, 2)
        await until(lambda: len(tail.begun) > 2, follower)
        assert tail.begun[2:] == [(0, 5)]
    finally:
        follower.close()


async def test_a_partition_that_the_thread_begins_late_is_not_read_again_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node begins it and writes to it while the thread polls. The thread rests before it comes to the new one."""
    log, tail = MemoryLog(), TimedTail()
    monkeypatch.setattr(log, "tail", lambda is_steady: tail)
    follower = Follower(log, Settings(redis_url=None))
    follower.begin(0, 3, 1)
    follower.passed(0, 7)
    follower.start(asyncio.get_running_loop(), lambda generation, batch: None)
    try:
        await until(lambda: len(tail.begun) > 0, follower)
        assert tail.begun == [(0, 7)]
    finally:
        follower.close()


async def test_the_tail_of_a_worker_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fetches wait longer at the broker than those of a node, which opens processes anywhere at any time."""
    log, asked = MemoryLog(), list[bool]()
    tail = log.tail

    def noted(*, is_steady: bool) -> Tail:
        asked.append(is_steady)
        return tail()

    monkeypatch.setattr(log, "tail", noted)
    async with Node.in_memory(log), Worker.in_memory([double], log):
        pass
    assert asked == [False, True]
    settings = Settings(redis_url=None)
    node, worker = (tail_config(settings, is_steady=is_steady) for is_steady in asked)
    assert node["fetch.wait.max.ms"] < worker["fetch.wait.max.ms"] < 200
    assert {**node, "fetch.wait.max.ms": 0} == {**worker, "fetch.wait.max.ms": 0}


async def test_a_partition_that_is_followed_anew_from_further_back_is_read_from_there() -> None:
    """The thread paused where the former tail was. It must not take the new tail for that one."""
    log = MemoryLog(partitions=1)
    for _ in range(10):
        log.append(0, b"p", b"")
    async with Node.in_memory(log) as node:
        tailer = runtime_of(node).tailer
        former = tailer.tail_from(0, 8)
        await tailer.wait_for(former, 10)
        await at_rest(node)
        tailer.stop_following(former, LogTruncated("the log was cut"))
        log.append(0, b"p", b"")
        tail, seen = tailer.tail_from(0, 2), list[int]()
        tail.observer = Offsets(seen)
        await tailer.wait_for(tail, 11)
        assert seen == [*range(2, 11)]


def _no_record(index: int) -> Record:
    raise IndexError(index)
