"""A node that is closed while somebody still calls it: everyone gets an answer, and a typed one. In memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from seekpoint.consumers.kafka import KafkaReader
from seekpoint.producers import Connector, Connectors, Dispatcher, Node, Process
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed, JournalUnavailable, SeekpointError
from seekpoint.schemas.settings import Settings

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


async def test_a_signal_that_has_not_left_at_the_close_is_told() -> None:
    """Kafka is silent, the queue is given up with the node: the caller hears of it."""
    log = MemoryLog(partitions=1)
    node = await Node.in_memory(log, **FAST)
    await node._outbox.close()
    with pytest.raises(HandleClosed):
        await asyncio.wait_for(node.signal("p", "go"), 60)
    await node.close()


async def test_a_heartbeat_that_cannot_be_withdrawn_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a node has left is a hint to others: Kafka may be silent for as long as it likes."""
    silent = threading.Event()
    monkeypatch.setattr("seekpoint.producers.pulse._LEAVE_S", 0.05)
    node = await Node.in_memory(**FAST)
    monkeypatch.setattr(node._pulse._store, "withdraw", lambda node_id: silent.wait(20))
    try:
        await asyncio.wait_for(node.close(), 60)
    finally:
        silent.set()


async def test_a_dispatcher_that_cannot_keep_its_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins where progress was last kept: it looks through a little more, and calls nothing twice."""
    monkeypatch.setattr("seekpoint.producers.durable.dispatcher._SAVE_S", 0.05)
    known = Connectors()
    known.register(Connector("bank", str, outbox=True))
    async with Node.in_memory(**FAST) as node:
        await node.signal("p", "go")
        dispatcher = Dispatcher(node, known=known, poll_s=0.01)
        async with asyncio.timeout(60), dispatcher:
            while not dispatcher.looks:  # noqa: ASYNC110  # it counts and tells nobody
                await asyncio.sleep(0.001)
            monkeypatch.setattr(node, "recover", _silence)


async def _silence(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


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
