"""Pools of open processes, and nodes that several threads and event loops call, on a real Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from seekpoint.producers import Node, SyncNode
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import SeekpointError

pytestmark = pytest.mark.cluster


async def test_a_pool_writes_all_and_leaves_nothing_open(journal: Settings) -> None:
    """Of more processes than it keeps, used by many tasks at once. Another node takes them over without asking."""
    names = [f"thread-{number}" for number in range(24)]
    async with Node.connect(journal) as node, Node.connect(journal) as other:
        async with node.pool(open_max=6, idle_s=30) as pool:

            async def use(number: int) -> None:
                async with pool.process(names[number % len(names)]) as process:
                    await process.update(f"use-{number}", number)

            await asyncio.gather(*map(use, range(5 * len(names))))
            async with asyncio.timeout(30):
                while len(list(runtime_of(node).open_handles())) > 6:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert list(runtime_of(node).open_handles()) == []
        for number, name in enumerate(names):
            state = (await other.recover(name)).state
            assert state.context == {f"use-{use}": use for use in range(number, 5 * len(names), len(names))}
        async with other.open(names[0]) as process:
            assert process.state.epoch > 1


def test_threads_and_event_loops_share_a_node(journal: Settings) -> None:
    """Four threads and two event loops write by one node at once: nothing is lost, nothing is written twice."""
    with SyncNode.connect(journal) as node:

        async def add(inner: Node, who: str, number: int) -> None:
            await (await inner.open("thread-9", shared=True)).record("work", [who, number])

        def from_a_thread(who: str) -> None:
            for number in range(5):
                node.call(lambda inner: add(inner, who, number))  # noqa: B023

        def from_a_loop(who: str) -> None:
            async def once(number: int) -> None:
                await node.call_async(lambda inner: add(inner, who, number))

            async def work() -> None:
                await asyncio.gather(*map(once, range(5)))

            asyncio.run(work())

        with ThreadPoolExecutor(6) as threads:
            ran = [threads.submit(from_a_thread, f"thread-{number}") for number in range(4)]
            ran += [threads.submit(from_a_loop, f"loop-{number}") for number in range(2)]
            for one in ran:
                one.result()

        async def written(inner: Node) -> Counter[str]:
            return Counter([one.payload[0] async for one in inner.records("thread-9", kinds=["work"])])

        assert node.call(written) == Counter(
            {**{f"thread-{number}": 5 for number in range(4)}, **{f"loop-{number}": 5 for number in range(2)}}
        )


async def test_a_node_refuses_another_event_loop(journal: Settings) -> None:
    """With an error that says what to use, before anything is sent."""
    async with Node.connect(journal) as node:
        found: list[BaseException] = []

        async def elsewhere() -> None:
            async with node.open("case-17") as process:
                await process.update("a", 1)

        def run() -> None:
            try:
                asyncio.run(elsewhere())
            except SeekpointError as exc:
                found.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        await asyncio.to_thread(thread.join)
        [error] = found
        assert "event loop" in str(error)
        assert "SyncNode" in str(error)
        async with node.open("case-17") as process:
            assert process.state.seq == 0
