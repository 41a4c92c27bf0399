"""The log in memory keeps the promises of a reader."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reader_contract import ReaderContract
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.memory_log import MemoryLog


class MemoryBench:
    """A ``MemoryLog``."""

    def __init__(self) -> None:
        self.reader: LogReader = (log := MemoryLog(partitions=4))
        self._log = log

    def write(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None, int]]) -> list[int]:
        return [self._log.append(partition, key, value, stamp) for key, value, stamp in records]

    def trim(self, partition: int, offset: int) -> None:
        self._log.trim(partition, offset)

    def other(self) -> LogReader:
        return self._log


@pytest.fixture
def bench() -> MemoryBench:
    return MemoryBench()


class TestMemoryLog(ReaderContract):
    """Inherited."""
