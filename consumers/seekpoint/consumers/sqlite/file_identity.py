"""Whether the files that a connection uses are still those that their names stand for, and safe to open.

A program that writes to a file after somebody deleted or replaced it writes to nowhere: its entries are acknowledged,
and no other program ever sees them. The same is true of the write-ahead log and of SQLite's index of it.
A file may come from somebody else: its schema runs nothing, and its values have a limit.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from seekpoint.schemas.errors import JournalMismatch

_VALUE_MAX = 1 << 27
"""Ten times the largest state: a value of a gigabyte would be read into memory."""
_OBJECTS = "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_ENDINGS = ("", "-wal", "-shm")


class FileIdentity:
    """The identity of a journal's files, for the connection that writes."""

    def __init__(self, path: Path) -> None:
        real = os.path.realpath(path)
        self._files = [f"{real}{ending}" for ending in _ENDINGS]
        self._known: list[tuple[int, int]] | None = None

    def forget(self) -> None:
        """Take the files as they will be at the next check."""
        self._known = None

    def check(self) -> None:
        """Raise ``JournalMismatch`` if a file is gone, or another one than at first.

        Call it inside a transaction that writes: then all three files exist. It takes some microseconds.
        """
        found = [_identity(file) for file in self._files]
        if self._known is None:
            self._known = found
        elif found != self._known:
            at = next(at for at, one in enumerate(found) if one != self._known[at])
            raise JournalMismatch(
                "the file was replaced while it was used", file=self._files[at],
                hint="stop all programs that use it, look which file is the right one, and start them again",
            )  # fmt: skip


def is_immutable(path: Path) -> bool:
    """Return whether nobody can write the file: it lies on a read-only file system, and was closed before.

    SQLite has to be told, as it cannot make its other files there.
    """
    if not hasattr(os, "statvfs"):
        return False
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not os.path.exists(f"{os.path.realpath(path)}-wal")
    except OSError:
        return False


def _identity(file: str) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError as exc:
        raise JournalMismatch(
            f"the file was deleted or moved while it was used: {exc.strerror}", file=file,
            hint="stop all programs that use it, put it back or restore a backup, and start them again",
        ) from exc  # fmt: skip
    return found.st_dev, found.st_ino


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
