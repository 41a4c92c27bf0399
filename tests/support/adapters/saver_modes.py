"""Savers that forget: each call has another saver, on a node that may be new, so nothing is answered from memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory

from seekpoint import Node
from seekpoint.adapters.langgraph import SeekpointSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

__all__ = ["MODES", "RelayingSaver", "saver_in_mode"]

NodeMaker = Callable[[str], Node]
MODES = ("warm", "cold", "two_nodes")
"""One saver; a new node and saver for each call; two nodes that take turns, call by call."""


class RelayingSaver(BaseCheckpointSaver[str]):
    """Has each call made by the saver that ``saver`` opens for it."""

    def __init__(self, saver: Callable[[], AbstractAsyncContextManager[SeekpointSaver]]) -> None:
        super().__init__()
        self._saver = saver

    async def _made(self, call: str, *args: Any, **how: Any) -> Any:
        async with self._saver() as saver:
            return await getattr(saver, call)(*args, **how)

    async def aput(self, *args: Any) -> RunnableConfig:
        """Relay."""
        config: RunnableConfig = await self._made("aput", *args)
        return config

    async def aput_writes(self, *args: Any, **how: Any) -> None:
        """Relay."""
        await self._made("aput_writes", *args, **how)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Relay."""
        found: CheckpointTuple | None = await self._made("aget_tuple", config)
        return found

    async def alist(self, config: RunnableConfig | None, **how: Any) -> AsyncIterator[CheckpointTuple]:
        """Relay."""
        async with self._saver() as saver:
            async for one in saver.alist(config, **how):
                yield one

    async def adelete_thread(self, thread_id: str) -> None:
        """Relay."""
        await self._made("adelete_thread", thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Relay."""
        await self._made("adelete_for_runs", run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Relay."""
        await self._made("acopy_thread", source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Relay."""
        await self._made("aprune", thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Relay."""
        found: Mapping[str, DeltaChannelHistory] = await self._made(
            "aget_delta_channel_history", config=config, channels=channels
        )
        return found


@asynccontextmanager
async def saver_in_mode(mode: str, make_node: NodeMaker) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Yield a saver in one of ``MODES``, on nodes that ``make_node`` makes of their names."""
    async with AsyncExitStack() as stack:
        if mode == "warm":
            yield SeekpointSaver(await stack.enter_async_context(make_node("node-a")))
        elif mode == "two_nodes":
            nodes = [await stack.enter_async_context(make_node(name)) for name in ("node-a", "node-b")]
            turns = cycle([SeekpointSaver(node) for node in nodes])

            @asynccontextmanager
            async def next_one() -> AsyncIterator[SeekpointSaver]:
                yield next(turns)

            yield RelayingSaver(next_one)
        else:

            @asynccontextmanager
            async def new_one() -> AsyncIterator[SeekpointSaver]:
                async with make_node("node-a") as node:
                    yield SeekpointSaver(node)

            yield RelayingSaver(new_one)
