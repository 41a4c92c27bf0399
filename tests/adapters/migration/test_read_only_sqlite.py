"""A file of SQLite from somebody else, which an importer reads: what it may make the reader do is bounded."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from seekpoint.adapters.migration import read_only_sqlite
from seekpoint.adapters.migration.read_only_sqlite import ReadOnlySqlite
from seekpoint.schemas.errors import Refused

COLUMNS: Mapping[str, set[str]] = {"runs": {"id", "value"}}


def _file(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)
    return path


def test_a_view_or_a_virtual_table_is_no_table(tmp_path: Path) -> None:
    """A view computes what it likes, and a virtual table runs an extension."""
    for number, statement in enumerate(
        ("CREATE VIEW runs AS SELECT 1 AS id, 2 AS value", "CREATE VIRTUAL TABLE runs USING fts5(id, value)")
    ):
        with pytest.raises(Refused, match="runs is no table"):
            ReadOnlySqlite(_file(tmp_path / f"{number}.db", statement), "the writer", COLUMNS)
    assert ReadOnlySqlite(_file(tmp_path / "good.db", "CREATE TABLE runs (id, value)"), "the writer", COLUMNS).found


def test_a_large_value_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fill the memory."""
    monkeypatch.setattr(read_only_sqlite, "_VALUE_MAX", 10_000)
    path = _file(
        tmp_path / "a.db", "CREATE TABLE runs (id, value)", "INSERT INTO runs VALUES (1, 'x'), (2, zeroblob(20000))"
    )
    source = ReadOnlySqlite(path, "the writer", COLUMNS)
    with source.reading() as file:
        assert file.execute("SELECT value FROM runs WHERE id = 1").fetchone() == ("x",)
    with pytest.raises(Refused, match="SQLite cannot read the source"), source.reading() as file:
        file.execute("SELECT value FROM runs WHERE id = 2").fetchone()


@pytest.mark.timeout(40)
def test_a_read_without_an_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generated column of a stranger's file can ask for any number of steps."""
    monkeypatch.setattr(read_only_sqlite, "_STEPS_MAX", 3)
    source = ReadOnlySqlite(_file(tmp_path / "a.db", "CREATE TABLE runs (id, value)"), "the writer", COLUMNS)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(Refused, match="interrupted"), source.reading() as file:
        file.execute(endless).fetchone()


def test_the_address_of_a_database_is_never_told() -> None:
    """Where a file is expected, it has the password."""
    with pytest.raises(Refused) as caught:
        ReadOnlySqlite("postgresql://ann:s3cr3t@db.example/runs", "the writer", COLUMNS)
    assert "s3cr3t" not in str(caught.value)
