"""Entries of Promptise that are too large for an entry of the journal, or for the state of a process."""

from __future__ import annotations

import asyncio

import pytest

from promptise_journals import MIB, entry, replayed, two_journals, update
from seekpoint import MemoryLog, Node
from seekpoint.adapters.promptise import SeekpointJournal, process_log
from seekpoint.errors import LimitExceeded
from seekpoint.schemas import Limits


async def test_what_is_too_large_for_an_entry_is_attached() -> None:
    """A checkpoint, a context value, a tool's result: read and recovered by every node, as it was."""
    large, text = {"context_state": {"a": "x" * (3 * MIB)}, "conversation": [1]}, "y" * (2 * MIB)
    async with two_journals() as (here, there):
        await here.append(entry("result", "tool_result", result=text))
        await here.checkpoint("p", large)
        await asyncio.gather(there.append(update("big", "b", text)), there.append(update("small", "c", 1)))
        for journal in (here, there):
            assert [one.data for one in await journal.read("p")] == [
                {"result": text}, {"state": large}, {"key": "b", "value": text}, {"key": "c", "value": 1}
            ]  # fmt: skip
            assert await journal.last_checkpoint("p") == large
            assert await journal.recover("p") == await replayed(journal)
            assert (await journal.recover("p"))["context_state"]["b"] == text
        state = (await here._calls.node.recover(here.process_id_of("p"))).state
        assert state.content_bytes < 10_000


async def test_large_values_that_no_recovery_needs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history has them nevertheless: their bytes are in the log. The newest checkpoint stays attached."""
    monkeypatch.setattr(process_log, "_KEPT_BYTES_MAX", 5 * MIB)
    async with two_journals() as (here, there):
        saved = [{"context_state": {"n": f"{number}" * (2 * MIB)}} for number in range(4)]
        for number, state in enumerate(saved):
            await (here, there)[number % 2].checkpoint("p", state)
        await here.checkpoint("p", saved[0])  # the same bytes as those that were dropped
        await here.append(update("e", "k", 1))
        kept = (await there._calls.node.recover(there.process_id_of("p"))).state.attached_bytes
        assert kept <= 5 * MIB
        assert [one.data["state"] for one in await there.read("p", entry_type="checkpoint")] == [*saved, saved[0]]
        assert (await there.recover("p"))["context_state"] == {**saved[0]["context_state"], "k": 1}


async def test_large_values_that_a_recovery_needs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if they are older than all others."""
    monkeypatch.setattr(process_log, "_KEPT_BYTES_MAX", 3 * MIB)
    async with two_journals() as (here, there):
        await here.append(update("old", "a", "x" * (2 * MIB)))
        results = ["y" * (2 * MIB), "z" * (2 * MIB)]
        for number, result in enumerate(results):
            await there.append(entry(f"e{number}", "tool_result", result=result))
        assert (await here.recover("p"))["context_state"] == {"a": "x" * (2 * MIB)}
        assert [one.data["result"] for one in await here.read("p", entry_type="tool_result")] == results


async def test_what_does_not_fit_at_all_is_refused() -> None:
    """Many small context values beyond the state's limit: the typed error, and what was written stays."""
    limits = Limits(state_bytes=20_000, record_bytes=8_000)
    async with Node.in_memory(MemoryLog(limits=limits)) as node:
        journal, written = SeekpointJournal(node), 0
        with pytest.raises(LimitExceeded):
            for number in range(100):
                await journal.append(update(f"e{number}", f"k{number}", "x" * 500))
                written += 1
        assert 10 < written < 40
        assert len((await journal.recover("p"))["context_state"]) == written
        await journal.checkpoint("p", {})
        await journal.append(update("next", "k", 1))
        assert (await journal.recover("p"))["context_state"] == {"k": 1}
