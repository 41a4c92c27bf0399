"""The view in the journal's file: a complete ``ViewBrowser``.

A row has the whole state of a process, its summary, and a hash of both. A write replaces rows and moves the applied
offset in one transaction of SQLite. The view can be made again from the log at any time, so its writes are not
synchronised with the disk: after a power failure it is an older view, as a whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from secrets import token_urlsafe
from typing import TypeVar

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.view.process_summary import Summary, is_open_process, summary_in, summary_row
from seekpoint.consumers.view.view_store import Change, Loaded, Page, Pointer, ViewLookup, ViewMeta
from seekpoint.schemas.errors import JournalMismatch, SeekpointError, ViewUnavailable
from seekpoint.schemas.state.process_state import State

T = TypeVar("T")

_DAMAGE = "its row does not have its hash"
_KEYS_MAX = 500


class SqliteView:
    """The view of a file. Thread safe; blocks. Every call raises ``ViewUnavailable`` if the file cannot be used."""

    is_loaded = True

    def __init__(self, file: SqliteFile, *, owns_file: bool = False) -> None:
        self._file = file
        self._owns_file = owns_file

    def load_client(self) -> None:
        """Do nothing: there is no client library."""

    # --- reading
    def meta(self, partition: int) -> ViewMeta | None:
        """Return the meta data of the partition's view; None if there is no view."""
        return self._read(lambda connection: _meta(connection, partition))

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded | None:
        """Return the applied offset and the present states of ``keys``; None: another token."""

        def load(connection: sqlite3.Connection) -> Loaded | None:
            meta = _meta(connection, partition)
            if meta is None or meta.token != token:
                return None
            states, damaged, wanted = dict[bytes, State](), dict[bytes, str](), [*keys]
            for at in range(0, len(wanted), _KEYS_MAX):
                some = wanted[at : at + _KEYS_MAX]
                marks = ",".join("?" * len(some))
                for key, data, check in connection.execute(
                    f"SELECT key, state, digest FROM processes WHERE partition = ? AND key IN ({marks})",
                    (partition, *some),
                ):
                    if check == _digest(key, data):
                        states[key] = State.from_bytes(data)
                    else:
                        damaged[key] = _DAMAGE
            return Loaded(meta.applied, states, damaged)

        return self._read(load)

    def offsets_from(
        self, partition: int, token: str, floor: int, applied: int | None = None
    ) -> dict[bytes, int] | None:
        """Return the processes whose state's offset is at or above ``floor``, with that offset; None: another view."""

        def find(connection: sqlite3.Connection) -> dict[bytes, int] | None:
            meta = _meta(connection, partition)
            if meta is None or meta.token != token or applied not in (None, meta.applied):
                return None
            rows = connection.execute(
                "SELECT key, at FROM processes WHERE partition = ? AND at >= ?", (partition, floor)
            )
            return dict(rows.fetchall())

        return self._read(find)

    def finished(self, partition: int, token: str, start: int, stop: int, count: int) -> tuple[list[bytes], int] | None:
        """Return finished processes with content, of the first ``count`` in [start, stop), and the next offset."""

        def find(connection: sqlite3.Connection) -> tuple[list[bytes], int] | None:
            if not _has_token(connection, partition, token):
                return None
            page = connection.execute(
                "SELECT at, key, has_finished_content FROM processes WHERE partition = ? AND at >= ? AND at < ?"
                " ORDER BY at LIMIT ?",
                (partition, start, stop, count),
            ).fetchall()
            following = page[-1][0] + 1 if len(page) == count else stop
            return [key for _, key, has_content in page if has_content], following

        return self._read(find)

    def look_up(self, partition: int, key: bytes) -> ViewLookup:
        """Return one process, its partition's meta data and its pointer."""

        def look(connection: sqlite3.Connection) -> ViewLookup:
            row = connection.execute(
                "SELECT state, digest, position, floor FROM processes WHERE partition = ? AND key = ?", (partition, key)
            ).fetchone()
            meta = _meta(connection, partition)
            if row is None or meta is None:
                return ViewLookup(meta, None, None)
            data, check, position, floor = row
            pointer = None if position is None else Pointer(position, floor)
            if check != _digest(key, data):
                return ViewLookup(meta, None, pointer, _DAMAGE)
            return ViewLookup(meta, State.from_bytes(data), pointer)

        return self._read(look)

    def partitions(self) -> int:
        """Return the journal's number of partitions."""
        return self._read(lambda connection: self._file.manifest.partitions)

    def offset_of(self, partition: int, key: bytes) -> tuple[ViewMeta | None, int | None]:
        """Return the partition's meta data and the offset of the process's state, if it has one."""

        def look(connection: sqlite3.Connection) -> tuple[ViewMeta | None, int | None]:
            row = connection.execute("SELECT at FROM processes WHERE partition = ? AND key = ?", (partition, key))
            found = row.fetchone()
            return _meta(connection, partition), None if found is None else found[0]

        return self._read(look)

    def page(self, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False) -> Page:
        """Return the first ``count`` processes whose keys begin with ``prefix`` and come after ``after``, by key."""
        only = " AND is_open = 1" if open_only else ""
        query = (
            "SELECT key, summary FROM processes WHERE partition = ? AND key > ? AND key >= ?"
            f" AND substr(key, 1, ?) = ?{only} ORDER BY key LIMIT ?"
        )
        return self._page(partition, query, (partition, after, prefix, len(prefix), prefix, count))

    def newest_page(self, partition: int, below: int | None, count: int) -> Page:
        """Return the ``count`` processes with the newest entries below the offset ``below``, the newest first."""
        query = "SELECT key, summary FROM processes WHERE partition = ? AND at < ? ORDER BY at DESC LIMIT ?"
        return self._page(partition, query, (partition, 1 << 62 if below is None else below, count))

    def close(self) -> None:
        """Close the file if it is the view's own. Idempotent."""
        if self._owns_file:
            self._file.close()

    def _page(self, partition: int, query: str, values: Iterable[object]) -> Page:
        def read(connection: sqlite3.Connection) -> Page:
            rows = connection.execute(query, tuple(values)).fetchall()
            try:
                return Page(_meta(connection, partition), _summaries(partition, rows))
            except JournalMismatch:
                return Page(None, ())

        return self._read(read)

    # --- writing
    def write(
        self, partition: int, token: str, position: int, applied: int, leader_epoch: int, changes: Sequence[Change]
    ) -> bool:
        """Write ``changes`` and set ``applied``, if the token is this one and the view's applied + 1 ``position``."""
        rows = [_row(partition, change.key, change.state) for change in changes]

        def write(connection: sqlite3.Connection) -> bool:
            meta = _meta(connection, partition)
            if meta is None or meta.token != token or meta.applied is None or meta.applied + 1 != position:
                return False
            connection.executemany(_UPSERT, rows)
            connection.execute(_MOVE, (applied, leader_epoch, partition))
            return True

        return self._write(write)

    def install(self, partition: int, topic_id: str) -> str:
        """Begin a rebuild: make an empty view without an applied offset. Return its new token."""
        token = token_urlsafe(6)

        def install(connection: sqlite3.Connection) -> str:
            connection.execute("DELETE FROM processes WHERE partition = ?", (partition,))
            connection.execute("INSERT OR REPLACE INTO views VALUES (?, ?, NULL, ?, -1)", (partition, token, topic_id))
            return token

        return self._write(install)

    def put(self, partition: int, token: str, states: Mapping[bytes, tuple[State, Pointer]]) -> bool:
        """Write states into a view during its rebuild. Return False if the token is another, or the view is ready."""
        rows = [_row(partition, key, state) for key, (state, _) in states.items()]
        pointers = [(*pointer, partition, key) for key, (_, pointer) in states.items()]

        def put(connection: sqlite3.Connection) -> bool:
            meta = _meta(connection, partition)
            if meta is None or meta.token != token or meta.applied is not None:
                return False
            connection.executemany(_UPSERT, rows)
            connection.executemany(_POINT, pointers)
            return True

        return self._write(put)

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int, processes: int | None = None) -> bool:
        """End a rebuild: make the view valid as of ``applied``. Return True for a second call that still holds."""

        def end(connection: sqlite3.Connection) -> bool:
            meta = _meta(connection, partition)
            if meta is None or meta.token != token or meta.applied not in (None, applied):
                return False
            count = connection.execute("SELECT count(*) FROM processes WHERE partition = ?", (partition,)).fetchone()
            if processes not in (None, count[0]):
                return False
            connection.execute(_MOVE, (applied, leader_epoch, partition))
            return True

        return self._write(end)

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Write pointers to checkpoints. Return False if the token is another."""
        rows = [(*pointer, partition, key) for key, pointer in pointers.items()]

        def point(connection: sqlite3.Connection) -> bool:
            if not _has_token(connection, partition, token):
                return False
            connection.executemany(_POINT, rows)
            return True

        return self._write(point)

    # --- the file
    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``work`` in one read transaction, so that all it reads is of one moment."""
        with _as_view(), self._file.reading() as connection:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                connection.execute("COMMIT")

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with _as_view():
            return self._file.write(work, is_durable=False)


_UPSERT = """INSERT INTO processes (partition, key, at, is_open, has_finished_content, summary, state, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (partition, key) DO UPDATE SET at = excluded.at, is_open = excluded.is_open,
has_finished_content = excluded.has_finished_content, summary = excluded.summary, state = excluded.state,
digest = excluded.digest"""
_MOVE = "UPDATE views SET applied = ?, leader_epoch = ? WHERE partition = ?"
_POINT = "UPDATE processes SET position = ?, floor = ? WHERE partition = ? AND key = ?"


@contextmanager
def _as_view() -> Iterator[None]:
    """Raise what is wrong with the file as ``ViewUnavailable``: the journal may be read all the same."""
    try:
        yield
    except ViewUnavailable:
        raise
    except SeekpointError as exc:
        raise ViewUnavailable(f"the view cannot be used: {exc.message}", hint=exc.hint) from exc


def _row(partition: int, key: bytes, state: State) -> tuple[object, ...]:
    data = state.to_bytes()
    has_content = state.finished and not state.content_dropped
    summary = summary_row(key, state)
    return partition, key, state.offset, is_open_process(key, state), has_content, summary, data, _digest(key, data)


def _digest(key: bytes, data: bytes) -> bytes:
    return blake2b(data, digest_size=16, key=blake2b(key, digest_size=16).digest()).digest()


def _meta(connection: sqlite3.Connection, partition: int) -> ViewMeta | None:
    row = connection.execute(
        "SELECT token, applied, topic_id, leader_epoch FROM views WHERE partition = ?", (partition,)
    ).fetchone()
    return None if row is None else ViewMeta(*row)


def _has_token(connection: sqlite3.Connection, partition: int, token: str) -> bool:
    meta = _meta(connection, partition)
    return meta is not None and meta.token == token


def _summaries(partition: int, rows: Sequence[tuple[bytes, bytes]]) -> tuple[Summary, ...]:
    return tuple(summary_in(partition, key, row) for key, row in rows)
