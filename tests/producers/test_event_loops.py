"""One node, several threads and event loops: what is refused, and the bridge. On a log in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from seekpoint.producers import Node, SyncClient, SyncNode
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed, Refused, UnknownProcess

pytestmark = pytest.mark.timeout(30)


async def in_another_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run ``work`` in an event loop of another thread."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))


async def test_a_node_refuses_calls_from_another_event_loop(log: MemoryLog) -> None:
    """At once and before anything is written; it works on in its own."""
    async with Node.in_memory(log) as node:
        async with node.open("a") as process:
            await process.update("x", 1)
            high = log.watermarks(0).high

            async def body() -> None:
                """Never runs."""

            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: node.recover("a"), lambda: node.signal("a", "go"), lambda: node.open("b"),
                lambda: node.open("c", shared=True), lambda: process.update("x", 2), lambda: process.step("s", body),
                lambda: anext(node.records("a")),
            ]  # fmt: skip
            for call in calls:

                async def made(call: Callable[[], Awaitable[Any]] = call) -> None:
                    await call()

                with pytest.raises(Refused, match="another event loop"):
                    await in_another_loop(made)
            assert log.watermarks(0).high == high
            await process.update("x", 3)
        assert (await node.recover("a")).state.context == {"x": 3}


def test_a_coroutine_is_called_from_any_thread(log: MemoryLog) -> None:
    """It runs in the event loop of the node, and so does an async function that gets the node."""

    async def begin(node: Node, name: str) -> str:
        async with node.open(name) as process:
            await process.update("x", name)
        return threading.current_thread().name

    with SyncNode.in_memory(log) as node:
        found: list[str] = []
        threads = [
            threading.Thread(target=lambda name=name: found.append(node.call(lambda one: begin(one, name))))
            for name in "abc"
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        assert found == ["seekpoint-sync"] * 3
        assert node.call(asyncio.sleep(0, "done")) == "done"
        with pytest.raises(UnknownProcess):
            node.call(lambda one: one.recover("nobody"))
        assert node.recover("b").state.context == {"x": "b"}
    late = asyncio.sleep(0)
    with pytest.raises(HandleClosed):
        node.call(late)
    with pytest.raises(HandleClosed):
        SyncNode.in_memory(log).call(asyncio.sleep(0))


async def test_several_event_loops_share_a_node(log: MemoryLog) -> None:
    """Each goes on while it waits; whoever is cancelled cancels the call."""
    with SyncNode.in_memory(log) as node:

        async def work(name: str) -> None:
            async def write(one: Node) -> None:
                async with one.open(name) as process:
                    await process.update("x", name)

            await asyncio.gather(node.call_async(write), asyncio.sleep(0.01))

        await asyncio.gather(*(in_another_loop(partial(work, name)) for name in "abcd"), work("e"))
        assert [one.process_id for one in node.processes()] == [*"abcde"]
        begun, ended = threading.Event(), threading.Event()

        async def hang(one: Node) -> None:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        waiting = asyncio.ensure_future(node.call_async(hang))
        assert await asyncio.to_thread(begun.wait, 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.to_thread(ended.wait, 10)

        async def nested(one: Node) -> Any:
            return await node.call_async(lambda again: again.recover("a"))

        assert (await node.call_async(nested)).state.context == {"x": "a"}
        with pytest.raises(UnknownProcess):
            await node.call_async(lambda one: one.recover("nobody"))
    with pytest.raises(HandleClosed):
        await node.call_async(asyncio.sleep(0))
    with pytest.raises(HandleClosed):
        await SyncNode.in_memory(log).call_async(asyncio.sleep(0))


def test_a_client_has_the_bridge_too(log: MemoryLog) -> None:
    """Its async function gets the client."""
    with SyncClient.in_memory(log) as client:
        assert client.call(lambda one: one.status("nobody")).stage == "unknown"
