"""Calls of a node from any event loop and any thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from seekpoint import Node, SyncNode
from seekpoint.errors import HandleClosed, Refused

T = TypeVar("T")


class NodeCalls:
    """A node, and the event loop in which its calls run."""

    def __init__(self, node: Node | SyncNode) -> None:
        if isinstance(node, SyncNode):
            self.node, self._loop = node.call(_inner)
            return
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError as exc:
            raise Refused(
                "an adapter on a Node is made in the node's event loop",
                hint="make it inside `async with Node.connect() as node`, or use SyncNode in plain code",
            ) from exc  # fmt: skip
        self.node = node

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` returns. It runs in the node's loop, whatever loop awaits it."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(self._begun(work))

    def blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` returns; the calling thread waits. Raises ``Refused`` in the node's own event loop."""
        try:
            is_own_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own_loop = False
        if is_own_loop:
            work.close()
            raise Refused(
                "a blocking call in the node's own event loop would wait for itself",
                hint="use the async calls there, or give the adapter a SyncNode",
            )  # fmt: skip
        future = self._begun(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _begun(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin ``work`` in the node's loop, from another thread. Raises ``HandleClosed`` if the loop has ended."""
        if self._loop.is_closed():
            work.close()
            raise HandleClosed(
                "the event loop of the adapter's node has ended",
                hint="keep the loop running in which the node was started, or use a SyncNode",
            )  # fmt: skip
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def streamed(self, items: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield what ``items`` yields. It runs in the node's loop."""
        done = object()

        async def following() -> Any:
            return await anext(items, done)

        while (item := await self.awaited(following())) is not done:
            yield item

    def iterated(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield what ``items`` yields, for plain code."""
        done = object()

        async def following() -> Any:
            return await anext(items, done)

        while (item := self.blocking(following())) is not done:
            yield item


async def _inner(node: Node) -> tuple[Node, asyncio.AbstractEventLoop]:
    return node, asyncio.get_running_loop()
