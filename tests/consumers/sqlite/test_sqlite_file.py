"""The file of an embedded log: what it is made of, and what is refused."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records
from seekpoint.schemas.config.settings import Settings, local_settings
from seekpoint.schemas.errors import InvalidSetting, JournalMismatch, JournalUnavailable, NewerFormat


def test_a_file_is_made_once_and_keeps_its_partitions(open_file: OpenFile) -> None:
    """Who opens it later gets the journal as it was made."""
    first, second = open_file(partitions=3), open_file(partitions=5)
    assert (first.manifest.partitions, second.manifest.partitions) == (3, 3)
    assert first.topic_id == second.topic_id


@pytest.mark.parametrize("number", range(100))
def test_many_threads_and_files_make_one_journal(open_file: OpenFile, number: int) -> None:
    """All that open a file at once see one journal."""
    files = [open_file() for _ in range(8)]
    found: list[str] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.topic_id)) for one in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8, number
    assert len({*found}) == 1


def test_a_file_that_another_program_makes_while_it_is_looked_at_is_a_journal(open_file: OpenFile) -> None:
    """Its two marks are read one after the other: the tables may be made between."""

    class Interrupted:
        """A connection; after its first statement another program makes the journal."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection
            self._made: str | None = None

        def execute(self, *given: Any) -> Any:
            found = self._connection.execute(*given)
            if self._made is not None:
                return found
            [row] = found.fetchall()
            self._made = open_file().topic_id
            return SimpleNamespace(fetchone=lambda: row)

    file = open_file()
    file.path.touch()
    with closing(sqlite3.connect(file.path, isolation_level=None)) as connection:
        looked: Any = Interrupted(connection)
        assert file._verified(looked).topic_ids["journal"] == looked._made


def test_who_opens_a_new_file_waits_for_another_who_makes_it(open_file: OpenFile) -> None:
    """SQLite refuses to change the mode of a file that another connection writes, at once and without its own wait."""
    file = open_file()
    file.path.touch()
    with closing(sqlite3.connect(file.path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        end.start()
        assert file.manifest.journal == Settings().journal
        end.join()


def test_a_commit_is_on_the_disk(open_file: OpenFile) -> None:
    """Write-ahead log, synchronised at each commit."""
    with open_file().reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_only_the_writes_that_may_be_lost_are_not_synchronised(open_file: OpenFile) -> None:
    """Those before and after one of them are."""
    file = open_file()

    def mode(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    found = [file.write(mode, is_durable=is_durable) for is_durable in (True, False, False, True, True)]
    assert found == [2, 1, 1, 2, 2]


def test_a_file_that_is_missing_is_not_made_by_a_reader(open_file: OpenFile, tmp_path: Path) -> None:
    """A misspelt name must not become an empty journal."""
    with pytest.raises(JournalUnavailable, match="no such file"):
        _ = open_file("misspelt.db", must_exist=True).manifest
    assert not (tmp_path / "misspelt.db").exists()


def test_a_file_of_something_else_is_refused_and_left_alone(open_file: OpenFile, tmp_path: Path) -> None:
    """Text, another program's database, another journal, a newer form."""
    (tmp_path / "text.db").write_text("no database at all, and long enough for a header of one hundred bytes" * 9)
    with pytest.raises(JournalMismatch, match="no SQLite database"):
        _ = open_file("text.db").manifest
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE mine (a)")
    other.close()
    with pytest.raises(JournalMismatch, match="another program"):
        _ = open_file("other.db").manifest
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]
    _ = open_file("fleet.db", journal="fleet").manifest
    with pytest.raises(JournalMismatch, match="holds the journal 'fleet'"):
        _ = open_file("fleet.db").manifest
    open_file("newer.db").write(lambda connection: connection.execute("PRAGMA user_version = 99"))
    with pytest.raises(NewerFormat):
        _ = open_file("newer.db").manifest


def test_a_folder_that_is_missing_is_an_error_with_advice(open_file: OpenFile) -> None:
    """No traceback of SQLite's."""
    with pytest.raises(JournalUnavailable, match="the folder must exist"):
        _ = open_file("missing/runs.db").manifest


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_may_not_be_written_is_an_error(open_file: OpenFile, tmp_path: Path) -> None:
    """It names the file."""
    _ = open_file().manifest
    (tmp_path / "runs.db").chmod(0o400)
    with pytest.raises(JournalUnavailable, match="may not write"):
        open_file().write(lambda connection: connection.execute("DELETE FROM journal"))


def test_a_transaction_that_fails_leaves_nothing(open_file: OpenFile) -> None:
    """And the next one works."""
    file = open_file()

    def half(connection: sqlite3.Connection) -> None:
        insert_records(connection, "journal", [(1, 0, None, None)])
        raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        file.write(half)
    with file.reading() as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    file.write(lambda connection: insert_records(connection, "journal", [(1, 0, None, None)]))


def test_a_writer_waits_for_another_programs_transaction(open_file: OpenFile, tmp_path: Path) -> None:
    """And writes once that has ended."""
    file = open_file()
    _ = file.manifest
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    written = threading.Event()

    def write() -> None:
        file.write(lambda connection: insert_records(connection, "journal", [(1, 0, None, None)]))
        written.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not written.wait(0.2)
    other.execute("COMMIT")
    assert written.wait(20)
    thread.join()
    other.close()


def test_a_closed_file_says_so(open_file: OpenFile) -> None:
    """Also who used it before."""
    file = open_file()
    _ = file.manifest
    file.close()
    with pytest.raises(JournalUnavailable, match="was closed"), file.reading():
        pass
    with pytest.raises(JournalUnavailable, match="was closed"):
        file.write(lambda connection: None)


def test_a_file_that_was_made_again_is_noticed(open_file: OpenFile, tmp_path: Path) -> None:
    """Offsets of the former one mean nothing in it."""
    log = SqliteLog(open_file(), Settings())
    _ = log.topic_id
    for name in list(tmp_path.iterdir()):
        name.unlink()
    with pytest.raises(JournalUnavailable, match="no such file"):
        log.check()
    _ = open_file().manifest
    with pytest.raises(JournalMismatch, match="made again"):
        log.check()


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("runs.db", "write sqlite:///runs.db"),
        ("sqlite://runs.db", "write sqlite:///runs.db"),
        ("file:///var/runs.db", "sqlite:////var/runs.db from the root"),
        ("kafka://broker:9092", "bootstrap_servers"),
        ("broker:9092", "bootstrap_servers"),
        ("sqlite:///:memory:", "Node.in_memory()"),
        ("postgres://x", "name a file"),
        ("sqlite://me:secret@host/x", "name a file"),
        (3, "see docs/settings.md"),
    ],
)
def test_a_wrong_journal_url_is_refused_with_the_right_one(url: object, advice: str) -> None:
    """As far as one can guess what was meant. A password is not repeated."""
    with pytest.raises(InvalidSetting) as caught:
        Settings(journal_url=url)  # type: ignore[arg-type]
    assert advice in caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_folder_that_may_not_be_entered_is_an_error_with_advice(
    open_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can know whether the file is in it."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(JournalUnavailable, match="the folder must exist"):
        _ = open_file("secret/runs.db", must_exist=True).manifest


def test_a_file_that_may_not_be_read_is_an_error_with_advice(
    open_file: OpenFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user made it; its folder is fine."""
    file = open_file("theirs.db")
    (tmp_path / "theirs.db").touch()

    def refuse(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    monkeypatch.setattr(sqlite3, "connect", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(JournalUnavailable, match="may not read the file"):
        _ = file.manifest


def test_a_path_is_not_taken_for_a_url() -> None:
    """``Node.local("sqlite:///runs.db")`` made a folder named ``sqlite:`` necessary."""
    for given, path in (("sqlite:///runs.db", "'runs.db'"), ("sqlite:////a/b", "'/a/b'"), ("sqlite:x", "'x'")):
        with pytest.raises(InvalidSetting, match="takes a path") as caught:
            local_settings(given, {})
        assert caught.value.hint == f"give {path}"


def test_a_folder_and_a_file_of_an_early_version_are_refused_as_such(open_file: OpenFile, tmp_path: Path) -> None:
    """Not as a file without permissions."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalMismatch, match="is a folder"):
        _ = open_file("folder").manifest
    _ = open_file("early.db").manifest
    early = sqlite3.connect(tmp_path / "early.db")
    early.execute("DROP TABLE tables")
    early.commit()
    early.close()
    with pytest.raises(JournalMismatch, match=r"another form.*no such table") as caught:
        _ = open_file("early.db").manifest
    assert "name another file" in caught.value.hint


def test_a_missing_file_is_named_with_its_folder(open_file: OpenFile, tmp_path: Path) -> None:
    """Most often the command was started somewhere else."""
    with pytest.raises(JournalUnavailable) as caught:
        _ = open_file("misspelt.db", must_exist=True).manifest
    assert caught.value.file == str(tmp_path / "misspelt.db")
    assert "look at journal_url, and at your folder" in caught.value.hint


def test_a_journal_url_is_checked() -> None:
    """Only a file of SQLite; and a journal in a file has no view in Redis."""
    settings = Settings(journal_url="sqlite:///runs.db", redis_url="redis://127.0.0.1:6379/0")
    assert (settings.redis_url, settings.sqlite_path) == (None, Path("runs.db").absolute())
    assert Settings(journal_url="sqlite:////var/runs.db").sqlite_path == Path("/var/runs.db")
    assert Settings().sqlite_path is None
    for url in ("postgres://x", "sqlite:///", "runs.db", "sqlite:///   "):
        with pytest.raises(InvalidSetting, match="journal_url"):
            Settings(journal_url=url)
