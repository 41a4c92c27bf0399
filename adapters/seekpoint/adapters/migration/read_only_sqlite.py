"""A file of SQLite that is only read."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

from seekpoint.errors import Refused

_VALUE_MAX = 1 << 28
_STEPS_MAX = 10_000
"""How many millions of SQLite's steps one read may take, some minutes: a file of a stranger may ask for any number."""


class ReadOnlySqlite:
    """Opens a file for each read. ``columns`` names the columns that its tables must have, ``writer`` who made it."""

    def __init__(self, path: str | Path, writer: str, columns: Mapping[str, set[str]]) -> None:
        self.path = Path(path)
        self._writer = writer
        self._mode = "mode=ro"
        self.found: dict[str, set[str]] = {}
        """The columns that there are, by table."""
        if not self.path.is_file():
            named = "a URI" if "://" in str(path) else str(path)  # that of a database has its password
            raise Refused("there is no such file", file=named, hint=f"give the file of {writer}")
        if not self._is_readable() and not Path(f"{self.path}-wal").exists():
            self._mode = "immutable=1"  # a folder that nobody may write to: SQLite cannot make its file of locks there
        with self.reading() as file:
            for table, wanted in columns.items():
                row = file.execute("SELECT type, sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
                if row is not None and (row[0] != "table" or re.match(r"\s*create\s+virtual", row[1], re.I)):
                    raise Refused(  # a view may compute without end, a virtual table runs an extension
                        f"the file was not written by {writer}: {table} is no table", file=str(self.path),
                        hint=f"give the file of {writer}",
                    )  # fmt: skip
                self.found[table] = {row[1] for row in file.execute(f"PRAGMA table_info({table})")}
                if missing := sorted(wanted - self.found[table]):
                    raise Refused(
                        f"the file was not written by {writer}: its table {table} lacks {', '.join(missing)}",
                        file=str(self.path), hint=f"give the file of {writer}",
                    )  # fmt: skip

    @contextmanager
    def reading(self, *, is_snapshot: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file; with ``is_snapshot`` all reads are as of one moment. Raises ``Refused``."""
        try:
            address = f"file:{quote(str(self.path.absolute()))}?{self._mode}"
            # Pages are read in whatever thread is free, one after the other.
            with closing(sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)) as file:
                file.execute("PRAGMA trusted_schema = OFF")
                file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX)
                steps = count(1)
                file.set_progress_handler(lambda: next(steps) > _STEPS_MAX, 1_000_000)
                if is_snapshot:
                    file.execute("BEGIN")
                yield file
        except sqlite3.Error as exc:
            raise Refused(
                f"SQLite cannot read the source: {exc}", file=str(self.path), hint=f"give the file of {self._writer}"
            ) from exc

    def _is_readable(self) -> bool:
        try:
            with self.reading() as file:
                file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except Refused:
            return False
        return True
