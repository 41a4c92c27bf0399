"""The history of a thread that a node has read: it reads only what is new, whatever other nodes do meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seekpoint import MemoryLog, Node
from seekpoint.adapters.langgraph import SeekpointSaver
from stored_checkpoints import THREAD, put, values_of


@asynccontextmanager
async def two_savers(log: MemoryLog) -> AsyncIterator[tuple[SeekpointSaver, SeekpointSaver, Node]]:
    """Yield the savers of two nodes, and the first node."""
    async with Node.in_memory(log, node_id="a") as here, Node.in_memory(log, node_id="b") as there:
        yield SeekpointSaver(here), SeekpointSaver(there), here


async def chain(saver: SeekpointSaver, *values: str) -> Any:
    """Put one checkpoint for each value, and return the last one."""
    parent: Any = None
    for value in values:
        parent = await put(saver, {"a": value}, {"a": f"{value}-{parent}"}, parent=parent)
    return parent


async def listed(saver: SeekpointSaver) -> list[str]:
    """Return the values of all checkpoints of the thread, the newest first."""
    return [values_of(one)["a"] async for one in saver.alist(THREAD)]


async def test_only_what_is_new_is_read(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries of another node since the last read; for a thread that has not grown, nothing."""
    starts: list[int] = []
    read = MemoryLog.read

    def noted(self: MemoryLog, partition: int, start: int, *rest: Any) -> Any:
        starts.append(start)
        return read(self, partition, start, *rest)

    async with two_savers(log) as (here, there, node):
        await chain(here, "1", "2", "3")
        assert await listed(here) == ["3", "2", "1"]
        known_to = (await node.recover("langgraph/t")).state.offset
        await chain(there, "4", "5")
        monkeypatch.setattr(MemoryLog, "read", noted)
        assert await listed(here) == ["5", "4", "3", "2", "1"]
        assert starts
        assert min(starts) >= known_to
        monkeypatch.setattr(node, "records", None)
        assert await listed(here) == ["5", "4", "3", "2", "1"]
        await chain(here, "6")
        assert await listed(here) == ["6", "5", "4", "3", "2", "1"]


async def test_a_thread_that_another_node_deletes_begins_anew(log: MemoryLog) -> None:
    """Nothing of the old one is listed."""
    async with two_savers(log) as (here, there, _):
        await chain(here, "1", "2")
        assert await listed(here) == ["2", "1"]
        await there.adelete_thread("t")
        assert await listed(here) == []
        await chain(there, "3")
        assert await listed(here) == ["3"]


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_thread_may_be_deleted_while_it_is_read(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, is_warm: bool
) -> None:
    """Between the read of its content and that of its entries: what is listed is the new one."""
    async with two_savers(log) as (here, there, node):
        await chain(here, "1", "2")
        if is_warm:
            assert await listed(here) == ["2", "1"]
        await chain(there, "3")
        records, was_deleted = node.records, False

        async def deleted_meanwhile(*args: Any, **how: Any) -> AsyncIterator[Any]:
            nonlocal was_deleted
            if not was_deleted:
                was_deleted = True
                await there.adelete_thread("t")
                await chain(there, "4", "5")
            async for record in records(*args, **how):
                yield record

        monkeypatch.setattr(node, "records", deleted_meanwhile)
        assert await listed(here) == ["5", "4"]
        assert was_deleted


async def test_what_comes_while_it_is_read_is_listed_the_next_time(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is that of one moment."""
    async with two_savers(log) as (here, there, node):
        await chain(here, "1", "2")
        records, grew = node.records, False

        async def grown_meanwhile(*args: Any, **how: Any) -> AsyncIterator[Any]:
            nonlocal grew
            if not grew:
                grew = True
                await chain(there, "3")
            async for record in records(*args, **how):
                yield record

        monkeypatch.setattr(node, "records", grown_meanwhile)
        assert await listed(here) == ["2", "1"]
        assert await listed(here) == ["3", "2", "1"]
