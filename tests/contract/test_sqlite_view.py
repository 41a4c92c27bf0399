"""The view in a SQLite file keeps the promises of a view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_view import SqliteView
from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ViewUnavailable
from view_contract import ViewContract
from view_journal import KEY, OTHER, Journal, full_state


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    made = SqliteFile(tmp_path / "runs.db", Settings())
    yield made
    made.close()


@pytest.fixture
def store(file: SqliteFile) -> SqliteView:
    return SqliteView(file)


class TestSqliteView(ViewContract):
    """Inherited."""


def test_a_row_that_was_changed_is_damage_and_the_others_stay(file: SqliteFile, store: SqliteView) -> None:
    """A state, or a summary: nothing of the row is returned."""
    journal = Journal(store)
    journal.write([Change(key=one, state=full_state(), whole=True) for one in (KEY, OTHER)])
    file.write(lambda one: one.execute("UPDATE processes SET state = ? WHERE key = ?", (full_state(5).to_bytes(), KEY)))
    found = store.look_up(journal.partition, KEY)
    assert (found.state, found.damage) == (None, "its row does not have its hash")
    loaded = store.load(journal.partition, journal.token, [KEY, OTHER])
    assert loaded is not None
    assert ([*loaded.states], [*loaded.damaged]) == ([OTHER], [KEY])
    assert len(store.page(journal.partition, b"", b"", 10).summaries) == 2
    file.write(lambda one: one.execute("UPDATE processes SET summary = x'00' WHERE key = ?", (KEY,)))
    assert store.page(journal.partition, b"", b"", 10) == (None, ())


def test_a_file_that_cannot_be_used_is_an_unavailable_view(file: SqliteFile, store: SqliteView) -> None:
    """A recovery then reads the log, or says what is wrong with it."""
    journal = Journal(store)
    file.close()
    with pytest.raises(ViewUnavailable):
        store.meta(journal.partition)
    with pytest.raises(ViewUnavailable):
        journal.write([])
