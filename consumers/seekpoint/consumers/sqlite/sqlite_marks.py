"""The bounds of a partition in a SQLite file."""

from __future__ import annotations

import sqlite3

from seekpoint.consumers.sqlite.sqlite_records import place_of
from seekpoint.schemas.log.log_ports import Watermarks


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
