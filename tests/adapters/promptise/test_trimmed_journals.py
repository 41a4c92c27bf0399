"""Journals of Promptise whose oldest entries were trimmed: what is left replays and rewinds to what it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from promptise.runtime.journal import RewindEngine, RewindMode

from promptise_journals import entry, replayed, update
from seekpoint import MemoryLog, Node
from seekpoint.adapters.promptise import SeekpointJournal
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.schemas import Settings


@asynccontextmanager
async def trimmed(*calls: Any, kept: int) -> AsyncIterator[SeekpointJournal]:
    """Yield the journal after ``calls``; the log was trimmed before the last ``kept`` of them."""
    log, saved = MemoryLog(partitions=1), MemoryCheckpoints(partitions=1)
    name = "promptise/p"
    async with Node.in_memory(log) as node:
        journal = SeekpointJournal(node)
        for number, call in enumerate(calls):
            if number == len(calls) - kept:
                state, end = (await node.recover(name)).state, log.watermarks(0).high
            await (journal.checkpoint("p", call) if isinstance(call, dict) else journal.append(call))
        if not kept:
            state, end = (await node.recover(name)).state, log.watermarks(0).high
    floor = Floor(offset=end, leader_epoch=0, topic_id=log.topic_id, since=0).to_bytes()
    saved.write(0, [(name.encode(), Checkpoint.of(name, 0, state, log.topic_id, 0).to_bytes()), (FLOOR_KEY, floor)])
    log.trim(0, end)
    async with Node(log, log, Settings(redis_url=None), Recovery.in_memory(log, checkpoints=saved)) as node:
        yield SeekpointJournal(node)


CALLS_TO_TRIM = (
    update("e0", "a", 0), {"context_state": {"a": 0}}, update("e1", "b", 1), {"context_state": {"a": 0, "b": 1}},
    update("e2", "c", 2), update("e3", "a", 3),
)  # fmt: skip


async def test_a_trimmed_history_begins_with_a_checkpoint() -> None:
    """From there on everything can be rebuilt; what cannot is left out."""
    async with trimmed(*CALLS_TO_TRIM, kept=4) as journal:
        found = await journal.read("p")
        assert [one.entry_type for one in found] == ["checkpoint", "context_update", "context_update"]
        assert await journal.recover("p") == await replayed(journal)
        done = await RewindEngine(journal).apply(process_id="p", target_entry_id="e3", mode=RewindMode.BOTH)
        assert done.context_state == {"a": 0, "b": 1, "c": 2}
        assert [one.entry_id for one in await journal.read("p", entry_type="context_update", limit=1)] == ["e2"]


@pytest.mark.parametrize("kept", [0, 1, 2])
async def test_where_no_checkpoint_is_left_the_state_is_replayed(kept: int) -> None:
    """An engine finds what the whole history had; a rewind finds no entry to go back to."""
    async with trimmed(*CALLS_TO_TRIM, kept=kept) as journal:
        found = await replayed(journal)
        assert found == await journal.recover("p")
        assert found["context_state"] == {"a": 3, "b": 1, "c": 2}
        assert found["entries_replayed"] == 2
        with pytest.raises(ValueError, match="not found"):
            await RewindEngine(journal).plan(process_id="p", target_entry_id="e3")
        assert [one.entry_type for one in await journal.read("p", limit=1)] == ["checkpoint"]


async def test_a_trimmed_history_without_any_checkpoint_is_its_state() -> None:
    """No call of ``checkpoint`` was made: all entries count."""
    async with trimmed(update("e0", "a", 0), update("e1", "b", 1), entry("e2", "checkpoint"), kept=1) as journal:
        assert await replayed(journal) == await journal.recover("p")
        assert (await journal.recover("p"))["context_state"] == {"a": 0, "b": 1}
        assert (await journal.recover("p"))["entries_replayed"] == 3
