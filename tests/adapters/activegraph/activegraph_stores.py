"""A plugin for ActiveGraph's own tests: each ``SQLiteEventStore`` that they make is a ``SeekpointEventStore``.

``SUITE_MODE`` says where the runs of what a test calls a file are: ``memory``, ``pipelined`` (the same, and an append
returns before its event is acknowledged), ``files`` (a journal in a file), ``two-nodes`` (two nodes of one log: each
store, and each call for all runs, goes to the other one), ``kafka`` (two nodes, by the settings of the environment),
``sqlite`` (ActiveGraph's own store, to compare).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import cycle
from typing import Any
from uuid import uuid4

import activegraph
import activegraph.store.retention
import pytest
from activegraph.store.base import RunRecord
from activegraph.store.sqlite import SQLiteEventStore

import activegraph_models
from seekpoint.adapters.activegraph import SeekpointEventStore, SeekpointRuns
from seekpoint.adapters.activegraph.journal_runs import JournalPath
from suite_nodes import SuiteNodes

MODE = os.environ.get("SUITE_MODE", "")

_nodes = SuiteNodes(MODE)
_by_path: dict[str, Iterator[SeekpointRuns]] = {}


class FilePath(JournalPath):
    """The path of a journal with the text that a test gave it, and equal to that text."""

    __eq__, __ne__, __hash__ = str.__eq__, str.__ne__, str.__hash__


def path_of(file: str) -> JournalPath:
    """Return the path of the journal that stands for a file: of the next node of it."""
    if file not in _by_path:
        prefix, window = uuid4().hex, 1_000 if MODE == "pipelined" else 0
        _by_path[file] = cycle(
            [
                _nodes.of_test.enter_context(SeekpointRuns(node, prefix=prefix, unacknowledged_max=window))
                for node in _nodes.new()
            ]
        )
    path = FilePath(file)
    path.runs = next(_by_path[file])
    return path


class SwappedStore(SeekpointEventStore):
    """What a test gets that asks for a ``SQLiteEventStore``."""

    def __init__(self, path: str | None = None, run_id: str | None = None) -> None:
        if path is None or run_id is None:
            SQLiteEventStore.__init__(self, path, run_id)  # says what is missing
        super().__init__(path_of(str(path)), run_id)

    @classmethod
    def list_runs(cls, path: str) -> list[RunRecord]:
        """Return the runs of a file."""
        return path_of(path).runs.list_runs()

    @classmethod
    def most_recent_run_id(cls, path: str) -> str | None:
        """Return the newest run of a file."""
        return path_of(path).runs.most_recent_run_id()

    @classmethod
    def fork_run(cls, path: str, **how: Any) -> int:
        """Fork a run of a file."""
        return path_of(path).runs.fork_run(**how)


if MODE:
    sys.modules["tests._llm_helpers"] = activegraph_models
if MODE and MODE != "sqlite":
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").partition(".")[0] == "activegraph" and hasattr(module, "SQLiteEventStore"):
            module.SQLiteEventStore = SwappedStore  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _begins_empty() -> Iterator[None]:
    """As the ``conftest.py`` of the suite does, which is not in the archive."""
    activegraph.clear_registry()
    yield
    activegraph.clear_registry()
    _by_path.clear()
    _nodes.of_test.close()


def pytest_sessionfinish() -> None:
    """Close the nodes on Kafka."""
    _nodes.close()
