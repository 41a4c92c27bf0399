"""A plugin for Promptise's own tests: each journal that they make is a ``SeekpointJournal``.

``SUITE_MODE`` says where its entries are: ``memory``, ``files`` (one SQLite file), ``two-nodes`` (two nodes of one log,
which take turns at each call), ``kafka`` (a journal by the settings of the environment, two nodes in turns). Journals
of one folder have the same entries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from itertools import cycle
from typing import Any
from uuid import uuid4

import promptise.runtime
import promptise.runtime.journal
import promptise.runtime.journal.file
import promptise.runtime.journal.memory
import pytest
from promptise.runtime.journal import JournalEntry

from seekpoint import SyncNode
from seekpoint.adapters.promptise import SeekpointJournal
from suite_nodes import SuiteNodes

_nodes = SuiteNodes(os.environ.get("SUITE_MODE", "memory"))
_by_folder: dict[str, tuple[list[SyncNode], str]] = {}


@pytest.fixture(autouse=True)
def _ends_its_nodes() -> Iterator[None]:
    yield
    _by_folder.clear()
    _nodes.of_test.close()


def pytest_sessionfinish() -> None:
    """Close the nodes on Kafka."""
    _nodes.close()


class _SwappedJournal:
    """What a test gets that asks for a journal: each call goes to the next node."""

    def __init__(self, folder: str) -> None:
        if folder not in _by_folder:
            _by_folder[folder] = _nodes.new(), uuid4().hex
        nodes, prefix = _by_folder[folder]
        self._turns = cycle([SeekpointJournal(node, prefix=prefix) for node in nodes])

    async def append(self, entry: JournalEntry) -> None:
        """Append an entry."""
        await next(self._turns).append(entry)

    async def read(
        self, process_id: str, *, since: datetime | None = None, entry_type: str | None = None, limit: int | None = None
    ) -> list[JournalEntry]:
        """Read entries."""
        return await next(self._turns).read(process_id, since=since, entry_type=entry_type, limit=limit)

    async def checkpoint(self, process_id: str, state: dict[str, Any]) -> None:
        """Store a checkpoint."""
        await next(self._turns).checkpoint(process_id, state)

    async def last_checkpoint(self, process_id: str) -> dict[str, Any] | None:
        """Return the newest checkpoint."""
        return await next(self._turns).last_checkpoint(process_id)

    async def close(self) -> None:
        """Close."""
        await next(self._turns).close()

    def __repr__(self) -> str:
        return repr(next(self._turns))


class SwappedMemory(_SwappedJournal):
    """In the place of ``InMemoryJournal``: each has entries of its own."""

    def __init__(self) -> None:
        super().__init__(uuid4().hex)


class SwappedFile(_SwappedJournal):
    """In the place of ``FileJournal``: those of one folder have the same entries."""

    def __init__(self, base_path: str = ".promptise/journal") -> None:
        super().__init__(str(base_path))


def pytest_configure() -> None:
    """Swap the journals. An import of this module, as for doctests, swaps nothing."""
    for module in (promptise.runtime, promptise.runtime.journal, promptise.runtime.journal.memory):
        module.InMemoryJournal = SwappedMemory  # type: ignore[attr-defined]
    for module in (promptise.runtime, promptise.runtime.journal, promptise.runtime.journal.file):
        module.FileJournal = SwappedFile  # type: ignore[attr-defined]
