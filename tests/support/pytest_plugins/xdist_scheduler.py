"""Which worker has which tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

__all__ = ["OneHasKafka"]


class OneHasKafka(LoadScopeScheduling):  # type: ignore[misc]  # the plugin ships no types
    """One worker has the files of tests that need the session's Kafka, and wait most of their time; others do the rest.

    By file, not by ``--dist loadgroup``: with pytest 9.2 the groups of pytest-xdist 3.8 do nothing.
    """

    def schedule(self) -> None:
        """Give a worker that replaces another two pieces of work, as all begin with: it starts none without a next."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Take the tests of a worker that ended back, except the one that ended it: that has failed."""
        work = self.assigned_work.pop(node)
        crashed = next((test for tests in work.values() for test, is_done in tests.items() if not is_done), None)
        if crashed is not None:
            for tests in work.values():
                tests.update({crashed: True} if crashed in tests else {})
            self.workqueue.update({scope: tests for scope, tests in work.items() if not all(tests.values())})
            for other in self.nodes:
                self._reschedule(other)
        return crashed

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "Kafka" if _needs_kafka(self.config.rootpath / file) else nodeid


@cache
def _needs_kafka(file: Path) -> bool:
    return "mark.cluster" in file.read_text()
