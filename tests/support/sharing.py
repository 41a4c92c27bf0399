"""Which worker has which tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

__all__ = ["OneHasKafka"]


class OneHasKafka(LoadScopeScheduling):  # type: ignore[misc]  # the plugin ships no types
    """One worker has the files of tests that need Kafka, which wait most of their time; others do the rest meanwhile.

    By file, not by ``--dist loadgroup``: with pytest 9.2 the groups of pytest-xdist 3.8 do nothing.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "Kafka" if _needs_kafka(self.config.rootpath / file) else nodeid


@cache
def _needs_kafka(file: Path) -> bool:
    return "mark.cluster" in file.read_text()
