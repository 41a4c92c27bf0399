"""A journal in memory with a writer that plays an owner by hand."""

from __future__ import annotations

import pytest

from owners import Owner
from projection_bench import Bench
from seekpoint.schemas.log.memory_log import MemoryLog
from stored_process import Kept


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=4)


@pytest.fixture
def owner(log: MemoryLog) -> Owner:
    return Owner(log.append, log.partitions, "case-17")


@pytest.fixture
def kept(log: MemoryLog, owner: Owner) -> Kept:
    return Kept(log, owner)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.owner.claim()
    for number in range(3):
        made.owner.update("n", str(number))
    return made
