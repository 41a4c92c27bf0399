"""A node that is closed while somebody still calls it: everyone gets an answer, and a typed one. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from seekpoint.producers import Node, Process
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed, SeekpointError

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
            await asyncio.wait_for(call, 5)


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
    await asyncio.wait_for(node.close(), 5)
    outcomes = await asyncio.wait_for(asyncio.gather(*under_way, return_exceptions=True), 5)
    assert all(isinstance(one, SeekpointError) for one in outcomes if isinstance(one, BaseException)), outcomes


async def test_a_signal_that_has_not_left_at_the_close_is_told() -> None:
    """Kafka is silent, the queue is given up with the node: the caller hears of it."""
    log = MemoryLog(partitions=1)
    node = await Node.in_memory(log, **FAST)
    await node._outbox.close()
    with pytest.raises(HandleClosed):
        await asyncio.wait_for(node.signal("p", "go"), 5)
    await node.close()
