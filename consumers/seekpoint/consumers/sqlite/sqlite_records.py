"""The records in a SQLite file, each with a checksum: SQLite notices damage of its own structures only."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from zlib import crc32

from seekpoint.schemas.errors import LogDamaged
from seekpoint.schemas.log.log_ports import Record, Watermarks

OFFSET_BITS = 40
COLUMNS = "place, timestamp_ms, key, value, checksum"
Row = tuple[int, int, bytes | None, bytes | None, int]
"""A row as it is read, with ``COLUMNS``."""


def place_of(partition: int, offset: int) -> int:
    """Return the place of a record: a number that orders records by partition, then by offset.

    >>> divmod(place_of(3, 17), 1 << 40)
    (3, 17)
    """
    return (partition << OFFSET_BITS) | offset


def insert_records(
    connection: sqlite3.Connection, topic: str, rows: Sequence[tuple[int, int, bytes | None, bytes | None]]
) -> None:
    """Insert rows of place, time in milliseconds, key and value."""
    checked = [(*row, _checksum(row[0], row[2], row[3])) for row in rows]
    connection.executemany(f"INSERT INTO {topic} ({COLUMNS}) VALUES (?, ?, ?, ?, ?)", checked)


def record_of(partition: int, row: Row) -> Record:
    """Return the record of a row. Raises ``LogDamaged`` if it is not what was written."""
    place, timestamp_ms, key, value, checksum = row
    offset = place - (partition << OFFSET_BITS)
    try:
        is_whole = checksum == _checksum(place, key, value)
    except TypeError:  # the type of a value is damaged
        is_whole = False
    if not is_whole:
        raise LogDamaged(
            "a record in the file is not what was written", partition=partition, offset=offset,
            hint="keep a copy of the file, restore a backup, and look at the disk; then start again what stopped",
        )  # fmt: skip
    return Record(partition, offset, timestamp_ms, key, value)


def _checksum(place: int, key: bytes | None, value: bytes | None) -> int:
    return crc32(value or b"", crc32(key or b"", (place ^ (place >> 32)) & 0xFFFFFFFF))


def marks_of(connection: sqlite3.Connection, topic: str, partition: int) -> Watermarks:
    """Return the first and the next offset of a partition."""
    first, end = place_of(partition, 0), place_of(partition + 1, 0)
    low, newest = connection.execute(
        f"SELECT (SELECT low FROM trimmed WHERE topic = ? AND partition = ?),"
        f" (SELECT place FROM {topic} WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT 1)",
        (topic, partition, first, end),
    ).fetchone()
    low = low or 0
    return Watermarks(low, low if newest is None else newest - first + 1)
