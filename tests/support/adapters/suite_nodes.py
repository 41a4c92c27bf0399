"""The nodes with which the suite of a framework runs, by ``SUITE_MODE``.

``memory``; ``files`` (a journal in a file); ``two-nodes`` (two nodes of one log); ``kafka`` (two nodes, by the settings
of the environment). Any other mode is as ``memory``.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from seekpoint import MemoryLog, SyncNode

__all__ = ["SuiteNodes"]


class SuiteNodes:
    """Makes nodes for tests, and ends them."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.of_test = ExitStack()
        """Ends what one test has made: its nodes, and what a plugin adds."""
        self._of_run = ExitStack()
        self._on_kafka: list[SyncNode] = []

    def new(self) -> list[SyncNode]:
        """Return the nodes of another journal; on Kafka those of the one journal."""
        if self.mode == "kafka":
            if not self._on_kafka:
                self._on_kafka = [self._of_run.enter_context(SyncNode.connect(node_id=name)) for name in ("n0", "n1")]
            return self._on_kafka
        if self.mode == "files":
            folder = self.of_test.enter_context(tempfile.TemporaryDirectory())
            nodes = [SyncNode.local(Path(folder) / "journal.db")]
        elif self.mode == "two-nodes":
            log = MemoryLog()
            nodes = [SyncNode.in_memory(log, node_id=name) for name in ("n0", "n1")]
        else:
            nodes = [SyncNode.in_memory()]
        return [self.of_test.enter_context(node) for node in nodes]

    def close(self) -> None:
        """End the nodes on Kafka."""
        self._of_run.close()
