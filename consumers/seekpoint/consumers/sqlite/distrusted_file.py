"""A file may come from somebody else: its schema runs nothing, and its values have a limit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache

_VALUE_MAX = 1 << 27
"""Ten times the largest state: a value of a gigabyte would be read into memory."""
_OBJECTS = "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"


def prepare(connection: sqlite3.Connection) -> None:
    """Set what each connection to a journal's file needs. Deleted content is overwritten, whatever SQLite's default."""
    for pragma in ("synchronous = FULL", "trusted_schema = OFF", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX)


def unexpected_object(connection: sqlite3.Connection, schema: str) -> str | None:
    """Return the name of a table, index, view or trigger that no journal has: it could run in each read or write."""
    expected = _objects(schema)
    return next((row[0] for row in connection.execute(_OBJECTS) if row not in expected), None)


@lru_cache(maxsize=4)
def _objects(schema: str) -> frozenset[tuple[str, str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        return frozenset(connection.execute(_OBJECTS))
