"""Threads whose oldest entries were trimmed: the newest checkpoint is whole, and no older one is shown in part."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seekpoint import MemoryLog, Node
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.errors import JournalGap
from seekpoint.schemas import Settings
from stored_checkpoints import THREAD, put, values_of

TEXT = "said at the beginning"


async def chain(saver: SeekpointSaver, numbers: range, parent: Any = None) -> Any:
    """Put checkpoints that change ``n`` alone; the first of them all has ``text`` too."""
    for number in numbers:
        values, versions = {"text": TEXT, "n": number}, {"text": "1", "n": f"{number + 1}"}
        changed = ("text", "n") if parent is None else ("n",)
        parent = await put(saver, values, versions, changed=changed, parent=parent)
    return parent


@asynccontextmanager
async def trimmed(after: int) -> AsyncIterator[tuple[SeekpointSaver, Any]]:
    """Yield a saver of a thread of five checkpoints that were trimmed, and of ``after`` more; and the newest one."""
    log, kept = MemoryLog(partitions=1), MemoryCheckpoints(partitions=1)
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        parent = await chain(saver, range(5))
        state, end = (await node.recover("langgraph/t")).state, log.watermarks(0).high
        parent = await chain(saver, range(5, 5 + after), parent)
    floor = Floor(offset=end, leader_epoch=0, topic_id=log.topic_id, since=0).to_bytes()
    checkpoint = Checkpoint.of("langgraph/t", 0, state, log.topic_id, 0).to_bytes()
    kept.write(0, [(b"langgraph/t", checkpoint), (FLOOR_KEY, floor)])
    log.trim(0, end)
    async with Node(log, log, Settings(redis_url=None), Recovery.in_memory(log, checkpoints=kept)) as node:
        yield SeekpointSaver(node), parent


@pytest.mark.parametrize("after", [0, 2])
async def test_no_checkpoint_is_listed_in_part(after: int) -> None:
    """Each that is listed has the value that only a trimmed entry had, or is left out."""
    async with trimmed(after) as (saver, parent):
        assert values_of(await saver.aget_tuple(THREAD)) == {"text": TEXT, "n": 4 + after}
        await chain(saver, range(9, 11), parent)
        listed = [values_of(one) async for one in saver.alist(THREAD)]
        assert listed[:2] == [{"text": TEXT, "n": 10}, {"text": TEXT, "n": 9}]
        assert {one.get("text") for one in listed} == {TEXT}


@pytest.mark.parametrize("after", [0, 2])
async def test_a_trimmed_thread_is_copied_and_pruned_whole(after: int) -> None:
    """The copy has all values of the newest checkpoint, and so has the thread."""
    async with trimmed(after) as (saver, _):
        await saver.acopy_thread("t", "copy")
        copy: Any = {"configurable": {"thread_id": "copy", "checkpoint_ns": ""}}
        assert values_of(await saver.aget_tuple(copy)) == {"text": TEXT, "n": 4 + after}
        await saver.aprune(["t"])
        assert [values_of(one) async for one in saver.alist(THREAD)] == [{"text": TEXT, "n": 4 + after}]


@pytest.mark.parametrize("after", [0, 2])
async def test_a_delta_channel_that_was_trimmed_is_not_read_in_part(after: int) -> None:
    """What its ancestors have written is gone: the error says so."""
    async with trimmed(after) as (saver, _):
        with pytest.raises(JournalGap, match="delta channel"):
            await saver.aget_delta_channel_history(config=THREAD, channels=["log"])
        found = await saver.aget_delta_channel_history(config=THREAD, channels=["n"] if after else [])
        assert found.keys() == ({"n"} if after else set())
