"""What happens to the file of an embedded log while programs use it: deleted, replaced, damaged, full, read-only."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite import sqlite_file
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records
from seekpoint.consumers.sqlite.sqlite_team import SqliteTeamMember
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable, LogDamaged


def write(file: SqliteFile, *offsets: int) -> None:
    rows = [(offset, 0, b"p", b"value %d" % offset) for offset in offsets]
    file.write(lambda connection: insert_records(connection, "journal", rows))


def values(log: SqliteLog) -> list[bytes | None]:
    return [one.value for batch in log.read(0, 0, log.watermarks(0).high) for one in batch.records]


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_nothing_is_acknowledged_that_nobody_would_find(open_file: OpenFile, tmp_path: Path, ending: str) -> None:
    """The file, its log or the index was deleted: a write is refused, and a reader does not make an empty file."""
    file = open_file()
    write(file, 0)
    (tmp_path / f"runs.db{ending}").unlink()
    with pytest.raises(JournalMismatch, match="deleted or moved"):
        write(file, 1)
    if not ending:
        with pytest.raises(JournalUnavailable), file.new_connection():
            pass
        assert not (tmp_path / "runs.db").exists()


def test_a_moved_file_has_all_that_was_acknowledged(open_file: OpenFile, tmp_path: Path) -> None:
    """What was refused is not in it."""
    file = open_file()
    write(file, 0)
    (tmp_path / "runs.db").rename(tmp_path / "moved.db")
    with pytest.raises(JournalMismatch):
        write(file, 1)
    file.close()
    for ending in ("-wal", "-shm"):
        if (left := tmp_path / f"runs.db{ending}").exists():
            left.rename(tmp_path / f"moved.db{ending}")
    assert values(SqliteLog(open_file("moved.db"), Settings())) == [b"value 0"]


def test_a_replaced_file_is_left_alone(open_file: OpenFile, tmp_path: Path) -> None:
    """Neither who writes nor who reads takes the new file for the journal that it opened."""
    log = SqliteLog(open_file(), Settings())
    write(log.file, 0)
    _ = open_file("other.db").topic_id
    open_file("other.db").close()
    (tmp_path / "other.db").rename(tmp_path / "runs.db")
    with pytest.raises(JournalMismatch, match="replaced"):
        write(log.file, 1)
    with pytest.raises(JournalMismatch, match="made again"), log.file.new_connection():
        pass
    with pytest.raises(JournalMismatch, match="made again"):
        log.check()


@pytest.mark.parametrize("what", ["value", "key", "place", "type"])
def test_a_changed_record_is_not_used(open_file: OpenFile, what: str) -> None:
    """The error says which it is; what lies before it is read."""
    log = SqliteLog(open_file(partitions=2), Settings())
    write(log.file, 0, 1, 2)
    change = {
        "value": "UPDATE journal SET value = x'76616c7565203f' WHERE place = 1",
        "key": "UPDATE journal SET key = x'71' WHERE place = 1",
        "place": "UPDATE journal SET value = (SELECT value FROM journal WHERE place = 2) WHERE place = 1",
        "type": "UPDATE journal SET value = 17 WHERE place = 1",
    }
    log.file.write(lambda connection: connection.execute(change[what]))
    with pytest.raises(LogDamaged) as raised:
        values(log)
    assert (raised.value.facts["partition"], raised.value.facts["offset"]) == (0, 1)
    assert [one.value for batch in log.read(0, 0, 1) for one in batch.records] == [b"value 0"]
    tail = log.tail()
    tail.begin(0, 0)
    assert [batch.broken for batch in tail.poll(5)] == [True]
    tail.close()


def test_a_damaged_page_is_an_error_that_names_the_file(open_file: OpenFile, tmp_path: Path) -> None:
    """Not an empty journal."""
    write(open_file(), *range(2_000))
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray((tmp_path / "runs.db").read_bytes())
    for page in range(20, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = os.urandom(200)
    (tmp_path / "damaged.db").write_bytes(data)
    with pytest.raises((JournalMismatch, LogDamaged)):
        values(SqliteLog(open_file("damaged.db"), Settings()))


def test_new_files_are_private(open_file: OpenFile, tmp_path: Path) -> None:
    """They hold what agents saw; a file that is there keeps its mode."""
    write(open_file(), 0)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("runs.db*")}
    assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}
    (tmp_path / "shared.db").touch()
    (tmp_path / "shared.db").chmod(0o660)
    write(open_file("shared.db"), 0)
    assert (tmp_path / "shared.db-wal").stat().st_mode & 0o777 == 0o660


def test_a_link_to_a_file_is_that_file(open_file: OpenFile, tmp_path: Path) -> None:
    """Both names at once, each with the other's records; a link to nothing is an error."""
    (tmp_path / "disk").mkdir()
    real = open_file("disk/runs.db")
    write(real, 0)
    (tmp_path / "link.db").symlink_to(tmp_path / "disk" / "runs.db")
    link = SqliteLog(open_file("link.db"), Settings())
    write(link.file, 1)
    write(real, 2)
    assert values(link) == [b"value 0", b"value 1", b"value 2"]
    (tmp_path / "nowhere.db").symlink_to(tmp_path / "missing.db")
    with pytest.raises(JournalUnavailable):
        _ = open_file("nowhere.db").manifest
    assert not (tmp_path / "missing.db").exists()


def test_a_full_disk_is_an_error_and_writes_go_on_with_room(open_file: OpenFile) -> None:
    """Nothing of the refused transaction remains."""
    file = open_file()
    write(file, 0)

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 1")
        insert_records(connection, "journal", [(at, 0, b"p", bytes(4_000)) for at in range(1, 9)])

    with pytest.raises(JournalUnavailable, match="make room"):
        file.write(fill)
    file.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000"))
    write(file, 1)
    assert values(SqliteLog(open_file(), Settings())) == [b"value 0", b"value 1"]


def test_a_program_that_hangs_in_a_transaction_is_an_error_in_time(
    open_file: OpenFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped, holds the lock, and the operating system does not take it away."""
    file = open_file()
    write(file, 0)
    monkeypatch.setattr(sqlite_file, "_BUSY_MAX_S", 0.2)
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match="one that hangs"):
        write(file, 1)
    other.close()
    write(file, 1)


def test_a_file_on_a_read_only_file_system_is_read(open_file: OpenFile, tmp_path: Path) -> None:
    """As a backup on such a disk is. Whoever writes is told that it cannot."""
    (disk := tmp_path / "disk").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount")
    try:
        write(open_file("disk/runs.db"), 0)
        connection = sqlite3.connect(disk / "runs.db")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        (tmp_path / "runs.db").write_bytes((disk / "runs.db").read_bytes())
        subprocess.run(["umount", "-l", disk], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=True)
        (disk / "backup.db").write_bytes((tmp_path / "runs.db").read_bytes())
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        log = SqliteLog(open_file("disk/backup.db", must_exist=True), Settings())
        assert values(log) == [b"value 0"]
        with pytest.raises(JournalUnavailable, match="may not write"):
            write(log.file, 1)
        log.close()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_a_clock_that_jumps_takes_nothing_from_a_live_member(
    open_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forwards and backwards by a day: who beats keeps its partitions."""
    first, second = (SqliteTeamMember(open_file(partitions=2), "a") for _ in range(2))
    really = time.time_ns
    for jump_s in (0, 86_400, -86_400, 0):
        monkeypatch.setattr(time, "time_ns", lambda jump_s=jump_s: really() + jump_s * 1_000_000_000)
        for one in (first, second, first, second):
            one.look_soon()
            one.look()
        assert {*first.assigned} | {*second.assigned} == {0, 1}
        assert len(first.assigned) == 1
