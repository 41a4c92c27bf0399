"""The tail of a log in a SQLite file: it looks whether the file has changed, and then reads what is new.

A program's own writers wake it. Those of other programs it notices by SQLite's ``data_version``, which costs four
microseconds: every 2 ms while something comes, every 10 ms otherwise.
"""

from __future__ import annotations

import sqlite3
import time

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_records import COLUMNS, OFFSET_BITS, Row, marks_of, place_of, record_of
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.log.tail import TailBatch

_BATCH = 500
_BUSY_LOOK_S, _IDLE_LOOK_S = 0.002, 0.01
_CHECK_S = 0.5
"""How often the tail looks whether a partition without new records still ends where it was read to."""
_PARTS_MAX = 100
"""How many partitions one statement reads; SQLite takes 500."""
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
        self._came_at_s = self._checked_at_s = 0.0
        self._owes_check = False
        """Whether the file changed since the last check of the ends."""

    def begin(self, partition: int, position: int) -> None:
        """Follow ``partition`` from ``position`` on."""
        self._positions[partition] = position
        self._seen = (-1, -1)
        self._checked_at_s = 0.0

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
                if now == self._seen and not (self._owes_check and self._is_check_due()):
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
        """Return a batch for each partition that has new records, or that cannot be read on."""
        is_checked = self._is_check_due()
        if is_checked:
            self._checked_at_s = time.monotonic()
        self._owes_check = not is_checked
        found = []
        for partition, rows in self._new_rows(connection).items():
            position = self._positions[partition]
            base = place_of(partition, 0)
            if rows and rows[0][0] == base + position:
                found.append(_batch(partition, base, rows))
                self._positions[partition] = found[-1].next_offset
            elif rows or (is_checked and marks_of(connection, self._topic, partition).high != position):
                del self._positions[partition]
                found.append(TailBatch(partition, (), _no_record, position, broken=True))
        return found

    def _is_check_due(self) -> bool:
        return time.monotonic() - self._checked_at_s > _CHECK_S

    def _new_rows(self, connection: sqlite3.Connection) -> dict[int, list[Row]]:
        """Return the records behind each position. One statement for all partitions: most have none."""
        found: dict[int, list[Row]] = {partition: [] for partition in self._positions}
        wanted = [*self._positions.items()]
        for at in range(0, len(wanted), _PARTS_MAX):
            part = wanted[at : at + _PARTS_MAX]
            places = [
                place
                for partition, position in part
                for place in (place_of(partition, position), place_of(partition + 1, 0))
            ]
            for row in connection.execute(self._query(len(part)), places):
                found[row[0] >> OFFSET_BITS].append(row)
        return found

    def _query(self, partitions: int) -> str:
        one = (
            f"SELECT * FROM (SELECT {COLUMNS} FROM {self._topic}"
            f" WHERE place >= ? AND place < ? ORDER BY place LIMIT {_BATCH})"
        )
        return " UNION ALL ".join([one] * partitions)


def _batch(partition: int, base: int, rows: list[Row]) -> TailBatch:
    """Return the batch of records that begin where the last one ended."""
    first, last = rows[0][0] - base, rows[-1][0] - base
    records = [record_of(partition, row) for row in rows]
    keys = [row[2] for row in rows]
    return TailBatch(partition, keys, records.__getitem__, last + 1, Landmark(first, 0), Landmark(last, 0))


def _no_record(index: int) -> Record:
    raise IndexError(index)
