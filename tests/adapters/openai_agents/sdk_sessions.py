"""A plugin for the SDK's own tests: each ``SQLiteSession`` that they make is a ``SeekpointSession``.

``SUITE_MODE`` says where its items are: ``memory``, ``files`` (one SQLite file), ``two-nodes`` (two nodes of one
log, which take turns at each call), ``kafka`` (a journal by the settings of the environment, two nodes in turns).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import uuid4

import agents
import agents.extensions.memory.encrypt_session  # before the swap: it has another way for a real SQLiteSession
import agents.memory
import agents.memory.sqlite_session
import pytest
from agents.items import TResponseInputItem
from agents.memory import SessionSettings

from seekpoint import SyncNode
from seekpoint.adapters.openai_agents import SeekpointSession
from suite_nodes import SuiteNodes

_nodes = SuiteNodes(os.environ.get("SUITE_MODE", "memory"))
_by_path: dict[str, tuple[list[SyncNode], str]] = {}


def _database(path: str) -> tuple[list[SyncNode], str]:
    """The nodes, and the prefix of ids, of what a test calls a database; one in memory belongs to one session."""
    if path not in _by_path or path == ":memory:":
        _by_path[path] = _nodes.new(), f"{uuid4().hex}/"
    return _by_path[path]


@pytest.fixture(autouse=True)
def _ends_its_nodes() -> Iterator[None]:
    yield
    _by_path.clear()
    _nodes.of_test.close()


def pytest_sessionfinish() -> None:
    """Close the nodes on Kafka."""
    _nodes.close()


class SwappedSession(SeekpointSession):
    """What a test gets that asks for a ``SQLiteSession``: each call goes to the next node."""

    def __init__(
        self, session_id: str, db_path: str | Path = ":memory:", sessions_table: str = "", messages_table: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        nodes, prefix = _database(str(db_path))
        super().__init__(session_id, nodes[0], prefix=prefix, session_settings=session_settings)
        self._turns = cycle([SeekpointSession(session_id, node, prefix=prefix) for node in nodes])

    def _next(self) -> SeekpointSession:
        session = next(self._turns)
        session.session_settings = self.session_settings
        return session

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return items."""
        return await self._next().get_items(limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items."""
        await self._next().add_items(items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove an item."""
        return await self._next().pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._next().clear_session()

    async def _get_compaction_snapshot(self, limit: int, **how: Any) -> Any:
        return await self._next()._get_compaction_snapshot(limit, **how) if type(self) is SwappedSession else None


if "SUITE_MODE" in os.environ:  # else pytest imports this to find examples
    for module in (agents, agents.memory, agents.memory.sqlite_session):
        module.SQLiteSession = SwappedSession  # type: ignore[attr-defined]
