"""The log in a SQLite file keeps the promises of a reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reader_contract import ReaderContract
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records, place_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import LogReader


class SqliteBench:
    """A ``SqliteLog`` in a file of its own, and others on the same file."""

    def __init__(self, path: Path) -> None:
        self._settings = Settings(partitions=4, redis_url=None)
        self._path = path
        self._log = SqliteLog(SqliteFile(path, self._settings), self._settings)
        self._others: list[LogReader] = []
        self.reader: LogReader = self._log

    def write(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None, int]]) -> list[int]:
        high = self.other().watermarks(partition).high
        rows = [(place_of(partition, high + n), at_ms, key, value) for n, (key, value, at_ms) in enumerate(records)]
        self._writer.file.write(lambda one: insert_records(one, "journal", rows))
        return [*range(high, high + len(rows))]

    def trim(self, partition: int, offset: int) -> None:
        self._writer.delete_below(partition, offset)

    @property
    def _writer(self) -> SqliteLog:
        return self.other()

    def other(self) -> SqliteLog:
        self._others.append(made := SqliteLog(SqliteFile(self._path, self._settings), self._settings))
        return made

    def close(self) -> None:
        for one in (self.reader, *self._others):
            one.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[SqliteBench]:
    bench = SqliteBench(tmp_path / "runs.db")
    yield bench
    bench.close()


class TestSqliteLog(ReaderContract):
    """Inherited."""

    passes_over_others = False
