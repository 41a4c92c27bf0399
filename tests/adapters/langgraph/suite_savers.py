"""A plugin for LangGraph's own tests: each ``InMemorySaver`` that a fixture gives them is a ``SeekpointSaver``.

``SUITE_MODE`` says where the threads are: ``memory``; ``files`` (a journal in a file); ``cold`` (each call on a new
node, so nothing is answered from memory); ``two-nodes`` (two nodes of one log, which take turns at each call);
``kafka`` (a journal by the settings of the environment, two nodes in turns). Tests with other savers are left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial, wraps
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver

from seekpoint import MemoryLog, SyncNode
from seekpoint.adapters.langgraph import SeekpointSaver

MODE = os.environ.get("SUITE_MODE", "memory")
OWN_TYPES = [
    ("tests.agents", "AgentAction"), ("tests.agents", "AgentFinish"), ("tests.test_pydantic", "FunctionalState"),
    ("langchain_core.agents", "AgentAction"), ("langchain_core.agents", "AgentFinish"),
]  # fmt: skip
"""The types of the tests' states that a user of the strict serializer names."""

ABSENT = (
    "langgraph.checkpoint.postgres", "langgraph.checkpoint.postgres.aio", "langgraph.store.postgres", "psycopg",
    "psycopg_pool",
)  # fmt: skip
"""What the fixtures import, and no test needs that runs here."""

Turn = Callable[[], AbstractContextManager[SeekpointSaver]]
_kafka = ExitStack()
_kafka_nodes: list[SyncNode] = []


class SaverInTurns(BaseCheckpointSaver[str]):
    """Has each call made by the saver that ``turn`` gives."""

    get_next_version = SeekpointSaver.get_next_version

    def __init__(self, turn: Turn) -> None:
        with turn() as saver:
            super().__init__(serde=saver.serde)
        self._turn = turn

    @contextmanager
    def next_one(self) -> Iterator[SeekpointSaver]:
        """Give the saver of the next call, with this one's serializer."""
        with self._turn() as saver:
            saver.serde = self.serde
            yield saver

    def list(self, *args: Any, **how: Any) -> Iterator[Any]:
        """Relay."""
        with self.next_one() as saver:
            yield from saver.list(*args, **how)

    async def alist(self, *args: Any, **how: Any) -> AsyncIterator[Any]:
        """Relay."""
        with self.next_one() as saver:
            async for one in saver.alist(*args, **how):
                yield one


def _relayed(name: str) -> Callable[..., Any]:
    def call(self: SaverInTurns, *args: Any, **how: Any) -> Any:
        with self.next_one() as saver:
            return getattr(saver, name)(*args, **how)

    async def awaited(self: SaverInTurns, *args: Any, **how: Any) -> Any:
        with self.next_one() as saver:
            return await getattr(saver, name)(*args, **how)

    relayed = awaited if name.startswith("a") else call
    return wraps(getattr(SeekpointSaver, name))(relayed)  # LangGraph looks at the parameters of put_writes


for _name in (
    "put", "put_writes", "get_tuple", "delete_thread", "delete_for_runs", "copy_thread", "prune",
    "get_delta_channel_history",
):  # fmt: skip
    setattr(SaverInTurns, _name, _relayed(_name))
    setattr(SaverInTurns, f"a{_name}", _relayed(f"a{_name}"))


@contextmanager
def _saver() -> Iterator[BaseCheckpointSaver[str]]:
    """Give what a test gets that asks for a saver in memory."""
    with ExitStack() as stack:
        if MODE == "memory":
            yield SeekpointSaver(stack.enter_context(SyncNode.in_memory()), allow=OWN_TYPES)
        elif MODE == "files":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            yield SeekpointSaver(stack.enter_context(SyncNode.local(Path(folder) / "journal.db")), allow=OWN_TYPES)
        elif MODE == "cold":
            yield SaverInTurns(partial(_cold, MemoryLog()))
        else:
            nodes, prefix = _two_nodes(stack), f"langgraph-{uuid4().hex}"
            turns = cycle([SeekpointSaver(node, allow=OWN_TYPES, prefix=prefix) for node in nodes])
            yield SaverInTurns(lambda: nullcontext(next(turns)))


@contextmanager
def _cold(log: MemoryLog) -> Iterator[SeekpointSaver]:
    with SyncNode.in_memory(log) as node:
        yield SeekpointSaver(node, allow=OWN_TYPES)


def _two_nodes(stack: ExitStack) -> list[SyncNode]:
    if MODE == "kafka":
        if not _kafka_nodes:
            _kafka_nodes.extend(_kafka.enter_context(SyncNode.connect(node_id=f"n{number}")) for number in range(2))
        return _kafka_nodes
    log = MemoryLog()
    return [stack.enter_context(SyncNode.in_memory(log, node_id=f"n{number}")) for number in range(2)]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Change the fixtures, before the tests' own conftest takes them over."""
    os.environ["NO_DOCKER"] = "true"  # the fixtures then ask for no server
    sys.modules.update({name: MagicMock() for name in ABSENT})
    fixtures: Any = import_module("tests.conftest_checkpointer")  # of the folder in which the program runs
    fixtures._checkpointer_memory = _saver


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of which a fixture gives a saver, once for each."""
    kept, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        savers = [params[name] for name in ("sync_checkpointer", "async_checkpointer") if name in params]
        is_ours = savers == ["memory"] and params.get("cache", "memory") == "memory"
        (kept if is_ours else others).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=others)


def pytest_sessionfinish() -> None:
    """Close the nodes on Kafka."""
    _kafka.close()
