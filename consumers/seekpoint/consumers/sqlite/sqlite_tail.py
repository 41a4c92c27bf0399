"""The tail of a log in a SQLite file: it looks whether the file has changed, and then reads what is new.

A program's own writers wake it. Those of other programs it notices by SQLite's ``data_version``, which costs four
microseconds: every 2 ms while something comes, every 10 ms otherwise.
"""

from __future__ import annotations

import sqlite3
import time

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile, place_of
from seekpoint.consumers.sqlite.sqlite_marks import marks_of
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.log.tail import TailBatch

__all__ = ["SqliteTail"]

_BATCH = 500
_BUSY_LOOK_S, _IDLE_LOOK_S = 0.002, 0.01
_BUSY_S = 2.0
"""How long after a record the tail looks often."""


class SqliteTail:
    """Follows partitions of one table of records. For one thread."""

    def __init__(self, file: SqliteFile, topic: str) -> None:
        self._file = file
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._broken: list[int] = []
        self._connection: sqlite3.Connection | None = None
        self._seen = (-1, -1)
        """The counts of changes that were looked at: of this program, and of others."""
        self._came_at_s = 0.0

    def begin(self, partition: int, position: int) -> None:
        """Follow ``partition`` from ``position`` on."""
        self._positions[partition] = position
        self._seen = (-1, -1)

    def end(self, partition: int) -> None:
        """Stop following ``partition``."""
        self._positions.pop(partition, None)

    def poll(self, timeout_s: float) -> list[TailBatch]:
        """Return new batches; wait up to ``timeout_s``."""
        until = time.monotonic() + timeout_s
        while True:
            found = self._look()
            left_s = until - time.monotonic()
            if found or left_s <= 0:
                return found
            is_busy = time.monotonic() - self._came_at_s < _BUSY_S
            self._wait(min(left_s, _BUSY_LOOK_S if is_busy else _IDLE_LOOK_S))

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._positions.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _wait(self, timeout_s: float) -> None:
        changes = self._file.changes
        with changes.changed:
            if changes.count == self._seen[0]:
                changes.changed.wait(timeout_s)

    def _look(self) -> list[TailBatch]:
        """Read what is new in all partitions, if the file has changed since the last look."""
        if not self._positions:
            return []
        try:
            with self._file.translating():
                if self._connection is None:
                    self._connection = self._file.new_connection()
                (others,) = self._connection.execute("PRAGMA data_version").fetchone()
                now = (self._file.changes.count, others)
                if now == self._seen:
                    return []
                found = self._read_new(self._connection)
        except SeekpointError:  # the caller reads the partitions itself and gets the error
            broken = [TailBatch(one, (), _no_record, at, broken=True) for one, at in self._positions.items()]
            self.close()
            return broken
        if found:
            self._came_at_s = time.monotonic()
        if not any(len(one.keys) == _BATCH for one in found):
            self._seen = now
        return found

    def _read_new(self, connection: sqlite3.Connection) -> list[TailBatch]:
        found = []
        for partition, position in list(self._positions.items()):
            batch = self._read(connection, partition, position)
            if batch is None:
                continue
            if batch.broken:
                del self._positions[partition]
            else:
                self._positions[partition] = batch.next_offset
            found.append(batch)
        return found

    def _read(self, connection: sqlite3.Connection, partition: int, position: int) -> TailBatch | None:
        """Return the records from ``position`` on; None if there are none, a broken batch if they cannot be there."""
        base = place_of(partition, 0)
        rows = connection.execute(
            f"SELECT place, timestamp_ms, key, value FROM {self._topic} WHERE place >= ? AND place < ?"
            f" ORDER BY place LIMIT {_BATCH}",
            (base + position, place_of(partition + 1, 0)),
        ).fetchall()
        if rows and rows[0][0] == base + position:
            first, end = Landmark(position, 0), rows[-1][0] - base
            records = [Record(partition, row[0] - base, *row[1:]) for row in rows]
            return TailBatch(
                partition, [row[2] for row in rows], records.__getitem__, end + 1, first, Landmark(end, 0)
            )  # fmt: skip
        if not rows and marks_of(connection, self._topic, partition).high == position:
            return None
        return TailBatch(partition, (), _no_record, position, broken=True)


def _no_record(index: int) -> Record:
    raise IndexError(index)
