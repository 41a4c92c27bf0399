"""The log in one SQLite file: a complete reader and writer of a journal, and the inbox beside it.

A record's place is its partition and offset in one number, so records lie in the file in the order in which they are
read. An index finds the records of a process: a read by key passes over nothing, however long the partition is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from seekpoint.consumers.sqlite.sqlite_appender import SqliteAppender
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_records import COLUMNS, Row, marks_of, place_of, record_of
from seekpoint.consumers.sqlite.sqlite_tail import SqliteTail
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap, JournalMismatch, LogTruncated
from seekpoint.schemas.log.log_ports import Batch, DeliveryReport, Extent, Landmark, Record, Watermarks
from seekpoint.schemas.log.manifest import Manifest, newest_schemas, writer_schemas
from seekpoint.schemas.wire.codec import Codec

if TYPE_CHECKING:
    from seekpoint.consumers.log_reading.group_members import GroupMember
    from seekpoint.consumers.sqlite.sqlite_checkpoints import SqliteCheckpoints

_BATCH = 500
_KEYS_MAX = 500
"""How many keys one query names; SQLite takes 32,766 in all."""
EPOCH = 0
"""The leader epoch of every record: a file has one leader."""


class SqliteLog:
    """A journal in a file. Thread safe, blocking; the file is opened when it is first used.

    ``topic`` is the table of its records: the journal, or the inbox of submissions. Raises what ``SqliteFile`` raises.
    """

    def __init__(self, file: SqliteFile, settings: Settings, topic: str = "journal") -> None:
        self.file = file
        self.settings = settings
        self.name = settings.journal
        self.topic = topic

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.file.manifest.partitions

    def connect(self) -> Manifest:
        """Return the journal's manifest. The first call opens the file."""
        return self.file.manifest

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self.file.manifest.limits

    @property
    def journal_format(self) -> int:
        """The journal's format when the file was opened."""
        return self.file.manifest.format

    @property
    def topic_id(self) -> str:
        """The id of the journal in the file."""
        return self.file.topic_id

    @cached_property
    def codec(self) -> Codec:
        """The decoder of the journal's entries, for every writer schema."""
        schemas = self.table("schemas")
        return Codec(self.limits, writer_schemas(schemas.items()), lambda: newest_schemas(schemas.items()))

    def group_members(self) -> list[GroupMember]:
        """Return the programs that share the file's partitions."""
        from seekpoint.consumers.sqlite.sqlite_team import team_members

        return team_members(self.file)

    def inbox(self) -> SqliteLog:
        """Return the log of submissions in the same file."""
        return SqliteLog(self.file, self.settings, "inbox")

    # --- reading
    def watermarks(self, partition: int) -> Watermarks:
        """Return the first and the next offset."""
        with self.file.reading() as connection:
            return marks_of(connection, self.topic, partition)

    def extent(self, partition: int) -> Extent:
        """Return the watermarks; the end is ``high``, as readers see only what is committed."""
        low, high = self.watermarks(partition)
        return Extent(low, high, high)

    def newest_times(self, partition: int, prefix: bytes, stop: int) -> dict[bytes, int]:
        """Return the times of the newest records below ``stop`` by key, of the keys that begin with ``prefix``.

        In milliseconds. It reads an index of the file, not the records.
        """
        query = (
            f"SELECT key, (SELECT timestamp_ms FROM {self.topic} WHERE place = newest) FROM (SELECT key, max(place)"
            f" AS newest FROM {self.topic} INDEXED BY {self.topic}_by_key WHERE key >= ? AND key < ?"
            " AND place >= ? AND place < ? GROUP BY key)"
        )
        bounds = prefix, prefix + b"\xff", place_of(partition, 0), place_of(partition, stop)
        with self.file.reading() as connection:  # no UTF-8 text has the byte 255
            return dict(connection.execute(query, bounds).fetchall())

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Yield batches of the records in [start, stop) whose key is in ``keys`` (None: all).

        ``scanned`` and ``bytes`` count the records of ``keys``: the others are not read.
        """
        if start >= stop:
            return
        high = self.watermarks(partition).high
        if stop > high:
            raise LogTruncated("the log ends earlier", journal=self.name, partition=partition, offset=stop, high=high)
        query = _Query(self.topic, partition, stop, keys)
        while start < stop:
            with self.file.reading() as connection:
                low, high = marks_of(connection, self.topic, partition)
                if start < low:
                    raise JournalGap("history is gone", journal=self.name, partition=partition, low=low, high=high)
                records = query.records(connection, start)
            end = records[-1].offset + 1 if len(records) >= _BATCH else stop
            size = sum(len(one.key or b"") + len(one.value or b"") for one in records)
            first, last = [Landmark(one.offset, EPOCH) for one in (*records[:1], *records[-1:])] or (None, None)
            yield Batch(records, len(records), size, end, first, last)
            start = end

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose record is not older than ``timestamp_ms``, else the high watermark."""
        with self.file.reading() as connection:
            row = connection.execute(
                f"SELECT place FROM {self.topic} WHERE place >= ? AND place < ? AND timestamp_ms >= ?"
                " ORDER BY place LIMIT 1",
                (place_of(partition, 0), place_of(partition + 1, 0), timestamp_ms),
            ).fetchone()
            return marks_of(connection, self.topic, partition).high if row is None else row[0] - place_of(partition, 0)

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """Return the leader epoch of the record at exactly ``offset``; -1 if there is none."""
        with self.file.reading() as connection:
            row = connection.execute(f"SELECT 1 FROM {self.topic} WHERE place = ?", (place_of(partition, offset),))
            return -1 if row.fetchone() is None else EPOCH

    def tail(self, *, is_steady: bool = False) -> SqliteTail:
        """Return a new tail, which follows no partition yet. The caller closes it."""
        return SqliteTail(self.file, self.topic)

    def check(self) -> None:
        """Raise ``JournalMismatch`` if the file now holds another journal, ``JournalUnavailable`` if it is gone."""
        other = SqliteFile(self.file.path, self.settings, must_exist=True)
        if other.topic_id != self.topic_id:
            raise JournalMismatch("the journal's file was made again", file=str(self.file.path),
                                  expected=self.topic_id, found=other.topic_id)  # fmt: skip

    def table(self, name: str) -> SqliteTable:
        """Return the table ``name``: what a compacted topic is on Kafka."""
        return SqliteTable(self.file, name)

    def checkpoints(self) -> SqliteCheckpoints:
        """Return the checkpoints in the same file."""
        from seekpoint.consumers.sqlite.sqlite_checkpoints import SqliteCheckpoints

        return SqliteCheckpoints(self.file)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self.file.close()

    # --- writing
    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> SqliteAppender:
        """Return a new appender."""
        return SqliteAppender(self.file, self.topic, deliver)

    def delete_below(self, partition: int, offset: int) -> None:
        """Delete the records below ``offset``, for ever. Only ``Trim`` calls it, after its checks."""

        def delete(connection: sqlite3.Connection) -> None:
            low, high = marks_of(connection, self.topic, partition)
            first = min(offset, high)
            if first > low:
                connection.execute(
                    f"DELETE FROM {self.topic} WHERE place >= ? AND place < ?",
                    (place_of(partition, 0), place_of(partition, first)),
                )
                connection.execute("INSERT OR REPLACE INTO trimmed VALUES (?, ?, ?)", (self.topic, partition, first))

        self.file.write(delete)


class _Query:
    """A read of one partition, in batches."""

    def __init__(self, topic: str, partition: int, stop: int, keys: Collection[bytes] | None) -> None:
        self._partition = partition
        self._stop = place_of(partition, stop)
        self._select = f"SELECT {COLUMNS} FROM {topic} WHERE place >= ? AND place < ?"
        listed = None if keys is None else [*keys]
        self._parts = (
            [None] if listed is None else [listed[at : at + _KEYS_MAX] for at in range(0, len(listed), _KEYS_MAX)]
        )

    def records(self, connection: sqlite3.Connection, start: int) -> list[Record]:
        """Return the next records from ``start`` on: ``_BATCH`` of them, or all that are left."""
        place = place_of(self._partition, start)
        rows = [row for keys in self._parts for row in self._rows(connection, place, keys)]
        if len(self._parts) > 1:
            rows.sort()
        return [record_of(self._partition, row) for row in rows[:_BATCH]]

    def _rows(self, connection: sqlite3.Connection, place: int, keys: list[bytes] | None) -> list[Row]:
        if keys is None:
            return connection.execute(f"{self._select} ORDER BY place LIMIT {_BATCH}", (place, self._stop)).fetchall()
        marks = ",".join("?" * len(keys))
        return connection.execute(
            f"{self._select} AND key IN ({marks}) ORDER BY place LIMIT {_BATCH}", (place, self._stop, *keys)
        ).fetchall()


class SqliteTable:
    """A table of the file: the newest value of each key. Thread safe; blocks."""

    def __init__(self, file: SqliteFile, name: str) -> None:
        self._file = file
        self._name = name

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value; it is on the disk when this returns. None deletes the key."""
        name = self._name

        def change(connection: sqlite3.Connection) -> None:
            if value is None:
                connection.execute("DELETE FROM tables WHERE name = ? AND key = ?", (name, key))
            else:  # a new position: the order is that of writing
                connection.execute(
                    "INSERT OR REPLACE INTO tables (name, key, value) VALUES (?, ?, ?)", (name, key, value)
                )

        self._file.write(change)

    def items(self) -> Mapping[bytes, bytes]:
        """Return the newest value of each key."""
        return dict(self.stream())

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key with its newest value, in the order in which they were written."""
        end, at = None, 0
        while True:
            with self._file.reading() as connection:
                if end is None:
                    (end,) = connection.execute(
                        "SELECT max(position) FROM tables WHERE name = ?", (self._name,)
                    ).fetchone()
                rows = connection.execute(_STREAM, (self._name, at, end)).fetchall()
            if not rows:
                return
            yield from ((key, value) for _, key, value in rows)
            at = rows[-1][0]


_STREAM = (
    "SELECT position, key, value FROM tables WHERE name = ? AND position > ? AND position <= ? ORDER BY 1 LIMIT 50"
)
