"""Checkpoints in a SQLite file keep the promises of a ``CheckpointReader``. They have no open transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from checkpoints_contract import CheckpointsContract, OpenTransaction, RawCheckpoint
from seekpoint.consumers.sqlite.sqlite_checkpoints import SqliteCheckpoints
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.schemas.config.settings import Settings


class SqliteBench:
    """``SqliteCheckpoints`` in a file of their own."""

    def __init__(self, file: SqliteFile) -> None:
        self.reader = self.impatient = SqliteCheckpoints(file)

    def write(self, partition: int, records: Sequence[RawCheckpoint]) -> list[int]:
        return self.reader.write(partition, records)

    def begin(self) -> OpenTransaction:
        pytest.skip("a reader never sees half of a transaction of SQLite, and markers take no position")

    def wait_for_stable_end(self, partition: int, position: int) -> None:
        assert self.reader.stable_end(partition) == position


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SqliteBench]:
    file = SqliteFile(tmp_path / "runs.db", Settings(partitions=4))
    yield SqliteBench(file)
    file.close()


class TestSqliteCheckpoints(CheckpointsContract):
    """Inherited."""
