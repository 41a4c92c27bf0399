"""The order in which checkpoints of many threads are listed, and what a listing costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from seekpoint import MemoryLog, Node
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.adapters.langgraph.thread_log import ThreadLog
from stored_checkpoints import put


def thread(name: str) -> Any:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


async def turns(saver: SeekpointSaver, *names: str) -> list[tuple[str, str]]:
    """Put a checkpoint into each of these threads in turn; return threads and ids, the newest first."""
    made = []
    for name in names:
        config = await put(saver, {"a": name}, {"a": name}, parent=thread(name))
        made.append((name, config["configurable"]["checkpoint_id"]))
    return made[::-1]


async def listed(saver: SeekpointSaver, **how: Any) -> list[tuple[str, str]]:
    """Return threads and ids of a listing of all threads."""
    configs = [found.config["configurable"] async for found in saver.alist(None, **how)]
    return [(config["thread_id"], config["checkpoint_id"]) for config in configs]


async def test_all_threads_are_listed_newest_first(log: MemoryLog) -> None:
    """However the threads take turns; a limit leaves out the oldest, and only newer threads are read for it."""
    async with Node.in_memory(log) as node:
        made = await turns(SeekpointSaver(node), "b", "a", "c", "a", "b", "d", "a")
    async with Node.in_memory(log, node_id="b") as node:
        saver, read = SeekpointSaver(node), []
        history = ThreadLog.history

        async def noted(self: ThreadLog) -> Any:
            read.append(self.process_id)
            return await history(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ThreadLog, "history", noted)
            assert await listed(saver, limit=3) == made[:3]
        assert sorted(read) == ["langgraph/a", "langgraph/b", "langgraph/d"]
        assert await listed(saver) == made
        before: Any = {"configurable": {"checkpoint_id": made[2][1]}}
        assert await listed(saver, before=before, limit=2) == made[3:5]
        assert await listed(saver, limit=0) == []


async def test_a_listing_decodes_each_part_once(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint, its metadata and its value."""
    decoded: Counter[bytes] = Counter()
    loads = JsonPlusSerializer.loads_typed

    def noted(self: JsonPlusSerializer, data: tuple[str, bytes]) -> Any:
        decoded[data[1]] += 1
        return loads(self, data)

    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        made = await turns(saver, *["a"] * 4)
        monkeypatch.setattr(JsonPlusSerializer, "loads_typed", noted)
        assert await listed(saver) == made
    assert sum(decoded.values()) <= 3 * len(made)


@pytest.mark.timeout(30)
async def test_a_cycle_of_parents_ends(log: MemoryLog) -> None:
    """Each ancestor counts once; a whole log has them all, and a thread of a cycle is pruned and read."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        first = await put(saver, {"a": 1}, {"a": "1"}, parent=thread("t"))
        second = await put(saver, {"a": 2}, {"a": "2"}, parent=first)
        deltas: Any = {"counters_since_delta_snapshot": {"d": 1}}
        again: Any = await saver.aget_tuple(first)
        await saver.aput(second, again.checkpoint, deltas, {})
        newest: Any = await saver.aget_tuple(second)
        await saver.aput(first, newest.checkpoint, deltas, {})

        async def used() -> None:
            assert (await saver.aget_delta_channel_history(config=second, channels=["d"]))["d"]["writes"] == []
            assert len(await listed(saver)) == 2
            await saver.aprune(["t"])

        await asyncio.wait_for(used(), 20)
        _, history = await saver._threads.of("t").history()
        assert history.has_all_ancestors("", second["configurable"]["checkpoint_id"])
