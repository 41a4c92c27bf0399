"""Reading the histories of many processes at once. In memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.producers import Node
from seekpoint.producers.history.history_reads import HistoryReads
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import InvalidName, UnknownProcess

NAMES = ("a", "b", "c")


class CountedLog(MemoryLog):
    """A log that notes which processes each read asks for."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.asked: list[set[bytes]] = []

    def read(self, partition: int, start: int, stop: int, keys: Any = None) -> Any:
        if keys is not None:
            self.asked.append(set(keys))
        return super().read(partition, start, stop, keys)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node on a log with three processes."""
    async with Node.in_memory(CountedLog()) as node:
        for name in NAMES:
            async with node.open(name) as process:
                await process.update("name", name)
        log_of(node).asked.clear()
        yield node


def log_of(node: Node) -> CountedLog:
    log = runtime_of(node).reader
    assert isinstance(log, CountedLog)
    return log


async def expected(node: Node, name: str) -> list[Logged]:
    return [one async for one in node.entries(name)]


async def test_calls_at_the_same_time_share_one_read(node: Node) -> None:
    """Each gets the entries of its own process; the partition is read once."""
    reads = HistoryReads(runtime_of(node))
    found = await asyncio.gather(*(reads.read(name, list) for name in NAMES))
    assert log_of(node).asked == [{b"a", b"b", b"c"}]
    assert found == [await expected(node, name) for name in NAMES]


async def test_calls_during_a_read_share_the_next_one(node: Node) -> None:
    """They wait for the end of the read that is under way."""
    reads, begun, go_on = HistoryReads(runtime_of(node)), threading.Event(), threading.Event()

    def slow(entries: list[Logged]) -> int:
        begun.set()
        assert go_on.wait(10)
        return len(entries)

    first = asyncio.create_task(reads.read("a", slow))
    assert await asyncio.to_thread(begun.wait, 10)
    others = [asyncio.create_task(reads.read(name, len)) for name in ("b", "c")]
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(first, *others) == [3, 3, 3]
    assert log_of(node).asked == [{b"a"}, {b"b", b"c"}]


async def test_an_error_is_that_of_one_call(node: Node) -> None:
    """A process that is not there, and a function that fails, spoil no other answer."""
    reads = HistoryReads(runtime_of(node))
    asked = (("a", len), ("gone", len), ("b", lambda entries: entries[99]))
    found: list[Any] = await asyncio.gather(*(reads.read(*one) for one in asked), return_exceptions=True)
    assert found[0] == 3
    assert [type(one) for one in found[1:]] == [UnknownProcess, IndexError]
    with pytest.raises(InvalidName):
        await reads.read(" ", len)


async def test_a_call_that_is_cancelled_does_not_stop_the_others(node: Node) -> None:
    """Its answer is dropped."""
    reads = HistoryReads(runtime_of(node))
    one, other = (asyncio.create_task(reads.read(name, len)) for name in ("a", "b"))
    await asyncio.sleep(0)
    one.cancel()
    assert await other == 3
    assert one.cancelled()


async def test_of_a_trimmed_log_each_process_has_what_is_left(node: Node) -> None:
    """Where the first offset that the calls name is gone, each process is read alone."""
    log_of(node).trim(0, 4)
    reads = HistoryReads(runtime_of(node))
    assert await asyncio.gather(*(reads.read(name, len, start=1) for name in ("b", "c"))) == [2, 3]


async def test_all_calls_get_the_error_of_a_node_that_is_closed() -> None:
    """None waits for ever."""
    async with Node.in_memory(CountedLog()) as node:
        reads = HistoryReads(runtime_of(node))
    found = await asyncio.gather(*(reads.read(name, len) for name in NAMES), return_exceptions=True)
    assert [type(one).__name__ for one in found] == ["HandleClosed"] * 3
