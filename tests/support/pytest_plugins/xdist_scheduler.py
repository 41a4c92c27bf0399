"""Which worker has which tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

__all__ = ["WorkersByNeed"]

_SIGNS = {"Kafka": "mark.cluster", "servers": "mark.own_cluster", "browser": "browser: Browser", "": 'scope="module"'}
"""What the tests of a file need -> the text that shows it. The first counts. "": a thing that they share, made once."""


class WorkersByNeed(LoadScopeScheduling):  # type: ignore[misc]  # the plugin ships no types
    """One worker has the tests of the console on Kafka, one the others on Kafka, one those in a browser.

    Each of the two has a Kafka of its own. Such tests wait most of their time, so three workers share two processors.
    A worker that is done takes the next piece, the largest first: the tests that start servers, then single files and
    tests. By file, not by ``--dist loadgroup``: with pytest 9.2 the groups of pytest-xdist 3.8 do nothing.
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
        need = _need_of(self.config.rootpath / file)
        if need == "Kafka" and file.startswith("tests/console/"):
            return "Kafka of the console"
        return nodeid if need is None else need or file


@cache
def _need_of(file: Path) -> str | None:
    """What the tests of a file need together; None where each of them can run anywhere."""
    text = file.read_text()
    return next((need for need, sign in _SIGNS.items() if sign in text), None)
