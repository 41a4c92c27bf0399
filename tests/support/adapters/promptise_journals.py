"""Journals of two nodes, entries for them, and what Promptise's engine finds in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from promptise.runtime.journal import JournalEntry, ReplayEngine

from seekpoint import MemoryLog, Node
from seekpoint.adapters.promptise import SeekpointJournal

__all__ = ["MIB", "T0", "entry", "replayed", "two_journals", "update"]

T0 = datetime(2026, 1, 1, tzinfo=UTC)
MIB = 1_048_576


def entry(entry_id: str, kind: str, at_s: float = 0.0, **data: Any) -> JournalEntry:
    """Return an entry of the process ``p``."""
    return JournalEntry(entry_id, "p", T0 + timedelta(seconds=at_s), kind, data)


def update(entry_id: str, key: str, value: Any) -> JournalEntry:
    """Return a context update."""
    return entry(entry_id, "context_update", key=key, value=value)


@asynccontextmanager
async def two_journals() -> AsyncIterator[tuple[SeekpointJournal, SeekpointJournal]]:
    """Yield the journals of two nodes of one log."""
    log = MemoryLog()
    async with Node.in_memory(log, node_id="a") as one, Node.in_memory(log, node_id="b") as other:
        yield SeekpointJournal(one), SeekpointJournal(other)


async def replayed(journal: Any) -> dict[str, Any]:
    """Return what Promptise's engine finds in a journal."""
    return await ReplayEngine(journal).recover("p")
