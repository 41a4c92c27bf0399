"""The bounds of a partition in a SQLite file."""

from __future__ import annotations

import sqlite3

from seekpoint.consumers.sqlite.sqlite_file import place_of
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["marks_of"]


def marks_of(connection: sqlite3.Connection, topic: str, partition: int) -> Watermarks:
    """Return the first and the next offset of a partition."""
    first, end = place_of(partition, 0), place_of(partition + 1, 0)
    row = connection.execute("SELECT low FROM trimmed WHERE topic = ? AND partition = ?", (topic, partition)).fetchone()
    low: int = 0 if row is None else row[0]
    newest = connection.execute(
        f"SELECT place FROM {topic} WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT 1", (first, end)
    ).fetchone()
    return Watermarks(low, low if newest is None else newest[0] - first + 1)
