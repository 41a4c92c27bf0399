"""One SQLite file with a journal: its connections, its form, its transactions, and SQLite's errors as Seekpoint's.

The file is in WAL mode, so readers never wait for writers, and each commit is synchronised with the disk
(``synchronous=FULL``). Any number of processes of one machine may use it at once; SQLite's own locks keep their
transactions apart. It must lie on a local disk: network file systems do not have these locks.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from seekpoint.consumers.sqlite.file_identity import FileIdentity, is_immutable, prepare, unexpected_object
from seekpoint.consumers.sqlite.file_manifest import (
    add_schema,
    is_same_journal,
    lacks_schema,
    manifest_in,
    write_format,
)
from seekpoint.consumers.sqlite.wal_room import WalRoom
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalFull, JournalMismatch, JournalUnavailable, NewerFormat, SeekpointError
from seekpoint.schemas.log.manifest import FORMAT, Manifest
from seekpoint.schemas.values.near_names import did_you_mean

T = TypeVar("T")

_APPLICATION_ID = 0x5345454B  # "SEEK"
_FILE_VERSION = 1
_SCHEMA = """
CREATE TABLE manifest (id INTEGER PRIMARY KEY CHECK (id = 0), value BLOB NOT NULL);
CREATE TABLE journal (
  place INTEGER PRIMARY KEY, timestamp_ms INTEGER NOT NULL, key BLOB, value BLOB, checksum INTEGER NOT NULL
);
CREATE INDEX journal_by_key ON journal (key, place);
CREATE TABLE inbox (
  place INTEGER PRIMARY KEY, timestamp_ms INTEGER NOT NULL, key BLOB, value BLOB, checksum INTEGER NOT NULL
);
CREATE TABLE trimmed (topic TEXT, partition INTEGER, low INTEGER NOT NULL, PRIMARY KEY (topic, partition));
CREATE TABLE tables (
  position INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
  UNIQUE (name, key)
);
CREATE TABLE members (id TEXT PRIMARY KEY, team TEXT NOT NULL, process TEXT NOT NULL, beats INTEGER NOT NULL);
CREATE TABLE assignments (team TEXT, partition INTEGER, member TEXT NOT NULL, PRIMARY KEY (team, partition));
CREATE TABLE checkpoints (place INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB);
CREATE INDEX checkpoints_by_key ON checkpoints (key, place);
CREATE TABLE views (
  partition INTEGER PRIMARY KEY, token TEXT NOT NULL, applied INTEGER, topic_id TEXT NOT NULL, leader_epoch INTEGER
);
CREATE TABLE processes (
  partition INTEGER, key BLOB, at INTEGER NOT NULL, is_open INTEGER NOT NULL, has_finished_content INTEGER NOT NULL,
  position INTEGER, floor INTEGER, summary BLOB NOT NULL, digest BLOB NOT NULL, state BLOB NOT NULL,
  PRIMARY KEY (partition, key)
);
CREATE INDEX processes_by_offset ON processes (partition, at);
CREATE INDEX open_processes ON processes (partition, key) WHERE is_open = 1;
CREATE TABLE commits (team TEXT, partition INTEGER, done INTEGER NOT NULL, PRIMARY KEY (team, partition));
"""
_BUSY_PAUSE_S = 0.0003
"""A writer that finds another one at work looks again after this time. A commit takes about as long."""
_BUSY_MAX_S = 30.0
_IDLE_CONNECTIONS_MAX = 8


class Changes:
    """Tells the threads of this program that a file has changed. There is one for each file."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.count = 0
        self.writing = threading.Lock()
        """Held by the thread of this program that writes: waiting for it is quicker than for SQLite's lock."""

    def note(self) -> None:
        """Wake the threads that wait for changes."""
        with self.changed:
            self.count += 1
            self.changed.notify_all()


_changes: WeakValueDictionary[str, Changes] = WeakValueDictionary()
_changes_lock = threading.Lock()


def _changes_of(path: Path) -> Changes:
    with _changes_lock:
        name = os.path.realpath(path)
        found = _changes.get(name)
        if found is None:
            found = _changes[name] = Changes()
        return found


class SqliteFile:
    """The file of a journal. Thread safe; opened at first use.

    Raises ``JournalUnavailable`` if the file cannot be opened, read or written now, ``JournalMismatch`` if it holds
    something else than this journal, ``NewerFormat``.
    """

    def __init__(
        self, path: Path, settings: Settings, *, must_exist: bool = False, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """``limits`` are those of a new journal; an existing one keeps its own."""
        self._limits = limits
        self.path = path
        self.changes = _changes_of(path)
        self._settings = settings
        self._must_exist = must_exist
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._writer_is_durable = True
        self._room = WalRoom(path)
        self._identity = FileIdentity(path)
        self._manifest: Manifest | None = None
        self._is_closed = False

    @property
    def manifest(self) -> Manifest:
        """The journal's description of itself. The first call opens the file, and creates it unless it must exist."""
        if self._manifest is None:
            with self._lock:
                if self._manifest is None:
                    self._manifest = self._opened()
        return self._manifest

    @property
    def topic_id(self) -> str:
        """The id of the journal in the file. A file that was made again has another one."""
        return self.manifest.topic_ids["journal"]

    # --- connections
    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Return a connection to read with. Use it briefly: an open read keeps the write-ahead log from shrinking."""
        _ = self.manifest
        with self.translating():
            connection = self._take() or self._connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)

    def new_connection(self) -> sqlite3.Connection:
        """Return a connection of the caller's own, for one thread. The caller closes it."""
        _ = self.manifest
        with self.translating():
            return self._connect()

    def write(self, work: Callable[[sqlite3.Connection], T], *, is_durable: bool = True, is_noted: bool = True) -> T:
        """Do ``work`` in a transaction. Return its result once the transaction is on the disk.

        Without ``is_durable`` it is not synchronised: after a power failure it, and what came later, may be missing.
        Without ``is_noted`` the caller wakes those who wait for changes.
        """
        _ = self.manifest
        with self.changes.writing, self.translating():
            if self._writer is None:
                self._check_open()
                self._writer, self._writer_is_durable = self._connect(), True
                _look_again_soon(self._writer)
                self._identity.forget()
            if is_durable != self._writer_is_durable:
                self._writer.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
                self._writer_is_durable = is_durable
            result = _transaction(self._writer, work, self._before_commit)
        if is_durable and is_noted:
            self.changes.note()
        return result

    def raise_format(self) -> None:
        """Raise the journal's format to that of this code. The schema of its entries comes with it."""
        newer = replace(self.manifest, format=FORMAT)
        self.write(partial(write_format, newer))
        self._manifest = newer

    def _before_commit(self) -> None:
        self._identity.check()
        self._room.make()

    def close(self) -> None:
        """Close all connections. A read or write under way in another thread ends first. Idempotent."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        with self.changes.writing:
            writer, self._writer = self._writer, None
        for connection in (*idle, *(() if writer is None else (writer,))):
            connection.close()

    def _take(self) -> sqlite3.Connection | None:
        with self._lock:
            self._check_open()
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise JournalUnavailable(
                "the journal's file was closed", file=str(self.path), hint="use a node that is open"
            )

    def _connect(self) -> sqlite3.Connection:
        """Connect to the file, which is never made by this. It must be the one that was opened first."""
        mode = "mode=ro&immutable=1" if is_immutable(self.path) else "mode=rw"
        name = f"{self.path.absolute().as_uri()}?{mode}"
        connection = sqlite3.connect(name, uri=True, timeout=_BUSY_MAX_S, isolation_level=None, check_same_thread=False)
        try:
            prepare(connection)
            if self._manifest is not None and not is_same_journal(manifest_in(connection), self._manifest):
                raise self._mismatch(
                    "the file was made again while it was used", "stop what uses it, and start it again"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    # --- opening
    def _opened(self) -> Manifest:
        self._check_open()
        if self._must_exist and not os.path.exists(self.path) and os.access(self.path.absolute().parent, os.X_OK):
            raise JournalUnavailable(
                "there is no such file", file=str(self.path.absolute()),
                hint=did_you_mean(self.path.name, (file.name for file in self.path.absolute().parent.glob("*")),
                    "look at journal_url, and at your folder; a node, a worker or a client creates the file"),
            )  # fmt: skip
        if not self._must_exist:
            self._make_private()
        with self.translating():
            connection = self._connect()
            with contextlib.closing(connection):
                return self._verified(connection)

    def _make_private(self) -> None:
        """Make an empty file that only its owner can read, unless there is one. SQLite's other files get its mode."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if self.path.is_dir():
                raise self._mismatch("the journal's file is a folder") from None
            return
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            raise JournalUnavailable(
                f"the journal's file cannot be made: {reason}", file=str(self.path.absolute()),
                hint=_HINTS[sqlite3.SQLITE_CANTOPEN],
            ) from exc  # fmt: skip

    def _verified(self, connection: sqlite3.Connection) -> Manifest:
        # In this order: another program may make the tables between, and then both are there.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application == 0 and version == 0:
            self._create(connection)
        elif application != _APPLICATION_ID:
            raise self._mismatch("the file is another program's SQLite database")
        elif version > _FILE_VERSION:
            raise NewerFormat("the file has a newer form than this code knows", found=version, known=_FILE_VERSION)
        if (name := unexpected_object(connection, _SCHEMA)) is not None:
            raise self._mismatch(f"the file has something that no journal has: {name[:80]!r}")
        manifest = manifest_in(connection)
        if manifest is None:
            raise self._mismatch("the file has no manifest")
        if manifest.journal != self._settings.journal:
            raise self._mismatch(
                f"the file holds the journal {manifest.journal!r}", hint=f'set journal = "{manifest.journal}"'
            )
        if not self._must_exist and manifest.format == FORMAT and lacks_schema(connection):
            _look_again_soon(connection)
            _transaction(connection, add_schema)
        return manifest

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the tables, unless another program has made them meanwhile."""
        _look_again_soon(connection)
        _execute_when_free(connection, "PRAGMA journal_mode = WAL")

        def make(connection: sqlite3.Connection) -> None:
            if connection.execute("PRAGMA user_version").fetchone()[0]:
                return
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
                raise self._mismatch("the file is another program's SQLite database")
            for statement in _SCHEMA.split(";\n")[:-1]:
                connection.execute(statement)
            manifest = Manifest(
                journal=self._settings.journal, format=FORMAT, partitions=self._settings.partitions,
                topic_ids={"journal": uuid4().hex}, limits=self._limits,
            )  # fmt: skip
            connection.execute("INSERT INTO manifest VALUES (0, ?)", (manifest.to_bytes(),))
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_FILE_VERSION}")

        _transaction(connection, make)

    def _mismatch(self, message: str, hint: str = "name another file in journal_url") -> JournalMismatch:
        return JournalMismatch(message, file=str(self.path), hint=hint)

    # --- errors
    @contextlib.contextmanager
    def translating(self) -> Iterator[None]:
        """Raise SQLite's errors as Seekpoint's, with the file's name."""
        try:
            yield
        except sqlite3.Error as exc:
            raise _translated(exc, self.path) from exc


def _transaction(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], at_end: Callable[[], None] | None = None
) -> T:
    """Do ``work``, then ``at_end``, between BEGIN and COMMIT. Nothing of it remains if it raises."""
    _execute_when_free(connection, "BEGIN IMMEDIATE")
    try:
        result = work(connection)
        if at_end is not None:
            at_end()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _look_again_soon(connection: sqlite3.Connection) -> None:
    """Have SQLite not wait for another program itself: its steps grow to 0.1 s. ``_execute_when_free`` waits."""
    connection.execute("PRAGMA busy_timeout = 0")


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Execute a statement that needs the file alone. Another program that uses it is waited for in short steps.

    For a change of the journal mode SQLite does not wait at all.
    """
    until = time.monotonic() + _BUSY_MAX_S
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_BUSY_PAUSE_S)


def _translated(error: sqlite3.Error, path: Path) -> SeekpointError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return JournalMismatch(
            "the file is no SQLite database", file=str(path), hint="name another file in journal_url"
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return JournalMismatch(
            f"the file is damaged: {error}", file=str(path),
            hint="keep a copy, then restore a backup, or what sqlite3's .recover finds in it",
        )  # fmt: skip
    if code == sqlite3.SQLITE_ERROR and str(error).startswith(("no such table", "no such column")):
        return JournalMismatch(
            f"the file has another form than this code writes: {error}", file=str(path),
            hint="a version before 0.1.0 made it: name another file in journal_url",
        )  # fmt: skip
    if code == sqlite3.SQLITE_FULL or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE:
        return JournalFull(f"the journal's file cannot grow: {error}", file=str(path.absolute()))
    hint = _HINTS.get(code, _HINT)
    if code == sqlite3.SQLITE_CANTOPEN and os.path.exists(path) and not os.access(path, os.R_OK):
        hint = "this user may not read the file"
    return JournalUnavailable(f"the journal's file cannot be used: {error}", file=str(path.absolute()), hint=hint)


_HINT = "look at the file, its folder and their permissions"
_HINTS = {
    sqlite3.SQLITE_BUSY: "another program has been writing for 30 s: look for one that hangs",
    sqlite3.SQLITE_READONLY: "this user may not write the file, or its folder",
    sqlite3.SQLITE_CANTOPEN: "the folder must exist, and this user must be allowed to use it and to write there",
}
