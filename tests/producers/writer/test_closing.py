"""A node that is closed while somebody still calls it: everyone gets an answer, and a typed one. In memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.producers import Connector, Connectors, Dispatcher, Node, Process
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import HandleClosed, JournalUnavailable, SeekpointError

FAST: dict[str, Any] = {"producer_drain_s": 0.01}


async def _open(node: Node) -> Process:
    return await node.open("p", take_over=True)


async def test_a_closed_node_refuses_typed() -> None:
    """Whatever is asked of it."""
    node = await Node.in_memory()
    await node.close()
    calls: list[Awaitable[object]] = [node.signal("p", "go"), node.cancel("p"), node.recover("p"), _open(node)]
    for call in calls:
        with pytest.raises(HandleClosed):
            await asyncio.wait_for(call, 60)


@pytest.mark.parametrize("ticks", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_what_is_under_way_at_the_close_ends(ticks: int) -> None:
    """An open, a signal, an append and a release: each went well or raises ours; none hangs."""
    log = MemoryLog(partitions=1)
    node = await Node.in_memory(log, **FAST)
    held = await node.open("held")
    calls = [_open(node), node.signal("q", "go"), held.update("a", 1), held.release()]
    under_way = [asyncio.ensure_future(call) for call in calls]
    for _ in range(ticks):
        await asyncio.sleep(0.0003)
    await asyncio.wait_for(node.close(), 60)
    outcomes = await asyncio.wait_for(asyncio.gather(*under_way, return_exceptions=True), 60)
    assert all(isinstance(one, SeekpointError) for one in outcomes if isinstance(one, BaseException)), outcomes


async def test_whoever_waits_for_a_partition_hears_of_the_close() -> None:
    """An open that waited for its own claim used to go on waiting for all of ``start_timeout_s``."""
    node = await Node.in_memory(**FAST)
    await node.open("held")
    tailer = runtime_of(node).tailer
    tail = tailer.tail(0) or tailer.tail_from(0, 0)
    waiting = asyncio.ensure_future(tailer.wait_for(tail, tail.position + 1_000_000))
    await asyncio.sleep(0)
    await node.close()
    with pytest.raises(HandleClosed):
        await asyncio.wait_for(waiting, 60)
    with pytest.raises(HandleClosed):
        await asyncio.wait_for(tailer.wait_for(tail, tail.position + 1_000_000), 60)


async def test_a_signal_that_has_not_left_at_the_close_is_told() -> None:
    """Kafka is silent, the queue is given up with the node: the caller hears of it."""
    log = MemoryLog(partitions=1)
    node = await Node.in_memory(log, **FAST)
    await runtime_of(node).outbox.close()
    with pytest.raises(HandleClosed):
        await asyncio.wait_for(node.signal("p", "go"), 60)
    await node.close()


async def test_a_heartbeat_that_cannot_be_withdrawn_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a node has left is a hint to others: Kafka may be silent for as long as it likes."""
    silent, asked = threading.Event(), list[str]()

    def withdraw(node_id: str) -> None:
        asked.append(node_id)
        silent.wait(20)

    monkeypatch.setattr("seekpoint.producers.claims.heartbeater._LEAVE_S", 0.05)
    node = await Node.in_memory(**FAST)
    monkeypatch.setattr(runtime_of(node).heartbeater._store, "withdraw", withdraw)
    try:
        await asyncio.wait_for(node.close(), 60)
        assert len(asked) == 1
    finally:
        silent.set()


async def test_a_dispatcher_that_cannot_keep_its_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins where progress was last kept: it looks through a little more, and calls nothing twice."""
    monkeypatch.setattr("seekpoint.producers.dispatch.dispatcher._SAVE_S", 0.05)
    saves = list[object]()

    async def silence(*asked: object, **_: object) -> None:
        saves.append(asked)
        await asyncio.Event().wait()

    known = Connectors()
    known.register(Connector("bank", str, outbox=True))
    async with Node.in_memory(**FAST) as node:
        await node.signal("p", "go")
        dispatcher = Dispatcher(node, known=known, poll_s=0.01)
        async with asyncio.timeout(60), dispatcher:
            while not dispatcher.looks:  # noqa: ASYNC110  # it counts and tells nobody
                await asyncio.sleep(0.001)
            monkeypatch.setattr(runtime_of(node), "recover", silence)
    assert saves


def test_a_table_that_is_written_ends_with_its_reader() -> None:
    """No Kafka answers; the thread that waits is let go at the close, not when Kafka's own time is over."""
    reader = KafkaReader(Settings(bootstrap_servers="127.0.0.1:1", start_timeout_s=20))
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(reader.produce, "seekpoint.nodes", 0, b"node", None)
        with pytest.raises(TimeoutError):
            writing.result(0.3)
        reader.close()
        with pytest.raises(JournalUnavailable):
            writing.result(5)


@pytest.mark.parametrize("at", ["page", "head", "removal"])
async def test_a_node_that_closes_while_its_heartbeat_is_written_leaves_none_of_it(
    monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The thread that writes pages cannot be stopped: it must not go on beside the one that removes them."""
    log = MemoryLog(partitions=1)
    node = await Node.in_memory(log, **FAST, heartbeat_interval_s=0.01)
    claims = [number.to_bytes(16, "big") for number in range(5_000)]
    monkeypatch.setattr(runtime_of(node).heartbeater, "_claims", lambda: claims)
    table, writing, go_on = log.table("nodes"), threading.Event(), threading.Event()
    while len(table.items()) < 10:  # noqa: ASYNC110  # the beat tells nobody
        await asyncio.sleep(0.001)
    put = table.put

    def slow(key: bytes, value: bytes | None) -> None:
        kind = "head" if b"\0" not in key else "page" if value is not None else "removal"
        if kind == at and not writing.is_set():
            writing.set()
            go_on.wait(20)
        time.sleep(0 if value is not None else 0.001)  # two threads that remove meet
        put(key, value)

    monkeypatch.setattr(table, "put", slow)
    del claims[1_500:]  # dealt anew: other pages are written, then the head, then the old pages are removed
    assert await asyncio.to_thread(writing.wait, 20)
    closing = asyncio.ensure_future(node.close())
    await asyncio.sleep(0.005)
    go_on.set()
    await asyncio.wait_for(closing, 60)
    await asyncio.to_thread(runtime_of(node).threads.shutdown)  # what still writes, does so now
    assert table.items() == {}


@pytest.mark.parametrize("failing", ["heartbeater", "tailer", "outbox", "recovery"])
async def test_every_part_is_closed_though_one_cannot_be(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """What it raised is told once the others are closed; a second close has nothing to do."""
    node = await Node.in_memory(**FAST)
    held = await node.open("held")
    part = getattr(runtime_of(node), failing)
    monkeypatch.setattr(type(part), "close", _failing(type(part).close))
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(node.close(), 60)
    assert not held.is_open
    with pytest.raises(HandleClosed):
        await runtime_of(node).in_thread(dict)
    await node.close()


def _failing(close: Callable[..., Any]) -> Callable[..., Any]:
    def closes(self: object) -> Any:
        found = close(self)
        if found is None:
            raise ZeroDivisionError
        return _fail_after(found)

    return closes


async def _fail_after(closing: Awaitable[None]) -> None:
    await closing
    raise ZeroDivisionError


async def test_a_close_that_is_cancelled_ends_first() -> None:
    """Whoever cancels it, and however often, finds everything closed."""
    log = MemoryLog(partitions=1)
    node = await Node.in_memory(log, **FAST)
    held = await node.open("held")
    closing = asyncio.ensure_future(node.close())
    for _ in range(2):
        await asyncio.sleep(0)
        closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, 60)
    assert not held.is_open
    assert log.table("nodes").items() == {}


async def test_several_failures_of_a_close_are_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a group, in the order of the steps; two closes at once both hear of them."""
    node = await Node.in_memory(**FAST)
    for part in (runtime_of(node).healer, runtime_of(node).tailer):
        monkeypatch.setattr(type(part), "close", _failing(type(part).close))
    for told in await asyncio.gather(node.close(), node.close(), return_exceptions=True):
        assert isinstance(told, ExceptionGroup)
        assert [type(one) for one in told.exceptions] == [ZeroDivisionError] * 2
