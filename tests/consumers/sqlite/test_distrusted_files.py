"""A journal's file from somebody else: nothing in it runs, and it asks for no room of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from seekpoint import Node
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch

ADDED = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON journal BEGIN DELETE FROM journal; END",
    "view": "CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
    "index": "CREATE INDEX i ON checkpoints (hex(randomblob(100000000)))",
    "table": "CREATE TABLE more (a)",
}


@pytest.mark.parametrize("kind", ["trigger", "view", "table"])
async def test_a_file_with_something_that_no_journal_has_is_refused(tmp_path: Path, kind: str) -> None:
    """A trigger or a view of a stranger would run in each append and read."""
    path = tmp_path / "j.db"
    async with Node.local(path) as node, node.open("p") as process:
        await process.update("a", 1)
    with closing(sqlite3.connect(path)) as file:
        file.execute(ADDED[kind])
        file.commit()
    with pytest.raises(JournalMismatch, match="no journal has"):
        async with Node.local(path) as node:
            await node.recover("p")


async def test_a_table_in_another_form_is_refused(tmp_path: Path) -> None:
    """A view in the place of a table is none."""
    path = tmp_path / "j.db"
    async with Node.local(path):
        pass
    with closing(sqlite3.connect(path)) as file:
        file.executescript("DROP TABLE commits; CREATE VIEW commits AS SELECT 1 AS team, 2 AS partition, 3 AS done;")
    with pytest.raises(JournalMismatch, match="commits"):
        async with Node.local(path) as node:
            await node.recover("p")


def test_deleted_content_is_overwritten_and_foreign_schemas_are_not_trusted(tmp_path: Path) -> None:
    """Both are set for each connection, whatever SQLite's build has as its default."""
    file = SqliteFile(tmp_path / "j.db", Settings())
    with file.reading() as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("secure_delete", "trusted_schema")]
    file.close()
    assert found == [1, 0]
