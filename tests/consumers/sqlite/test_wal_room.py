"""Room in the write-ahead log: commits do not make the file longer, and nothing else changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite import wal_room
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records
from seekpoint.schemas.config.settings import Settings


def write(file: SqliteFile, *places: int) -> None:
    rows = [(place, 0, b"p", b"v" * 100) for place in places]
    file.write(lambda connection: insert_records(connection, "journal", rows))


def test_the_log_is_longer_than_what_is_written_and_does_not_grow_without_end(
    open_file: OpenFile, tmp_path: Path
) -> None:
    """A small commit finds the place that it needs."""
    file, log = open_file(), tmp_path / "runs.db-wal"
    write(file, 0)
    first = log.stat().st_size
    assert first >= wal_room._STEP_BYTES
    for place in range(1, wal_room._TRANSACTIONS - 1):
        write(file, place)
    assert log.stat().st_size == first
    for place in range(wal_room._TRANSACTIONS, 12 * wal_room._TRANSACTIONS):
        write(file, place)
    assert log.stat().st_size < wal_room._ENOUGH_BYTES + 2 * wal_room._STEP_BYTES


def test_a_file_that_was_left_with_room_in_its_log_is_whole(open_file: OpenFile, tmp_path: Path) -> None:
    """As a killed program leaves it: SQLite reads the log up to the zeros."""
    file = open_file()
    write(file, *range(20))
    (left := tmp_path / "left").mkdir()
    for name in ("runs.db", "runs.db-wal"):
        shutil.copy(tmp_path / name, left / name)
    assert (left / "runs.db-wal").read_bytes().endswith(bytes(1_000))
    log = SqliteLog(open_file("left/runs.db"), Settings())
    assert log.watermarks(0).high == 20
    write(log.file, 20)
    connection = sqlite3.connect(left / "runs.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_log_of_zeros_only_is_an_empty_one(open_file: OpenFile, tmp_path: Path) -> None:
    """The first program was killed between making room and its first commit."""
    write(open_file(), 0)
    open_file().close()
    (left := tmp_path / "left").mkdir()
    connection = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    connection.execute(f"VACUUM INTO '{left / 'runs.db'}'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with closing(sqlite3.connect(left / "runs.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    (left / "runs.db-wal").write_bytes(bytes(100_000))
    log = SqliteLog(open_file("left/runs.db"), Settings())
    assert log.watermarks(0).high == 1
    write(log.file, 1)
    assert log.watermarks(0).high == 2


@pytest.mark.parametrize("is_partial", [False, True])
def test_a_full_disk_keeps_its_last_bytes_for_the_transaction(
    open_file: OpenFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_partial: bool
) -> None:
    """The log is as long as before, and the transaction is written."""
    really = os.pwrite

    def full(descriptor: int, data: bytes, at: int) -> int:
        if is_partial:
            return really(descriptor, data[:1_000], at)
        raise OSError("no space left")

    monkeypatch.setattr(os, "pwrite", full)
    (log := tmp_path / "other.db-wal").write_bytes(b"as it was")
    wal_room.WalRoom(tmp_path / "other.db").make()
    assert log.read_bytes() == b"as it was"
    write(open_file(), 0)
    assert SqliteLog(open_file(), Settings()).watermarks(0).high == 1
