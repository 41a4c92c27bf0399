"""Checkpoints in the journal's file: a complete ``CheckpointReader`` and ``CheckpointWriter``.

A commit replaces the older checkpoints of its processes, as compaction does on Kafka some time later. Positions are
never used again. A transaction of SQLite is never seen half, so every end is stable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_records import place_of
from seekpoint.consumers.sqlite.sqlite_team import Membership
from seekpoint.schemas.errors import LogTruncated, SeekpointError

_BATCH = 100


class SqliteCheckpoints:
    """The checkpoints of a file. Thread safe; blocks. Raises what ``SqliteFile`` raises."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    # --- reading
    def end(self, partition: int) -> int:
        """Return the next position."""
        with self._file.reading() as connection:
            return _end(connection, partition)

    def stable_end(self, partition: int) -> int:
        """Return the next position: nothing is hidden."""
        return self.end(partition)

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Yield (position, key, value) of the records in [start, stop). Raises ``LogTruncated``."""
        if start < stop and stop > (high := self.end(partition)):
            raise LogTruncated("the checkpoints end before this position", partition=partition, offset=stop, high=high)
        base, last = place_of(partition, 0), place_of(partition, stop)
        at = base + start
        while at < last:
            with self._file.reading() as connection:
                rows = connection.execute(_READ, (at, last)).fetchall()
            yield from ((place - base, key, value) for place, key, value in rows)
            at = rows[-1][0] + 1 if len(rows) == _BATCH else last

    def at(self, partition: int, position: int, key: bytes) -> bytes | None:
        """Return the value at exactly ``position`` under ``key``; None if it is not there."""
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT value FROM checkpoints WHERE place = ? AND key = ?", (place_of(partition, position), key)
            ).fetchone()
        return None if row is None else row[0]

    # --- writing
    def write(self, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        """Append records, and leave the older ones of their keys; return their positions."""
        return self._file.write(lambda connection: _append(connection, partition, records))

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        """Write all of ``saves``, or raise ``CommitFailed`` if other members of the group have the partitions now."""
        assert isinstance(membership, Membership)

        def work(connection: sqlite3.Connection) -> dict[int, dict[bytes, int]]:
            if not membership.holds(connection, [save.partition for save in saves]):
                raise CommitFailed("another projector has the partitions now", decided=True)
            return {save.partition: _save(connection, save) for save in saves}

        try:
            return self._file.write(work)
        except CommitFailed:
            raise
        except SeekpointError as exc:
            raise CommitFailed(f"the checkpoints were not written: {exc.message}", decided=True, hint=exc.hint) from exc

    def settle(self) -> None:
        """Do nothing: no transaction is ever left open."""


_READ = f"SELECT place, key, value FROM checkpoints WHERE place >= ? AND place < ? ORDER BY place LIMIT {_BATCH}"


def _end(connection: sqlite3.Connection, partition: int) -> int:
    base = place_of(partition, 0)
    (newest,) = connection.execute(
        "SELECT max(place) FROM checkpoints WHERE place >= ? AND place < ?", (base, place_of(partition + 1, 0))
    ).fetchone()
    return 0 if newest is None else int(newest) - base + 1


def _append(connection: sqlite3.Connection, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
    first = _end(connection, partition)
    rows = [(place_of(partition, first + at), *record) for at, record in enumerate(records)]
    connection.executemany("INSERT INTO checkpoints (place, key, value) VALUES (?, ?, ?)", rows)
    return [*range(first, first + len(rows))]


def _save(connection: sqlite3.Connection, save: Save) -> dict[bytes, int]:
    """Write the checkpoints, then the floor, which is last so that the newest place is never deleted."""
    records = [*((key, one.to_bytes()) for key, one in save.checkpoints.items()), (FLOOR_KEY, save.floor.to_bytes())]
    positions = _append(connection, save.partition, records)
    first = place_of(save.partition, positions[0])
    connection.executemany(
        "DELETE FROM checkpoints WHERE key = ? AND place >= ? AND place < ?",
        [(key, place_of(save.partition, 0), first) for key, _ in records],
    )
    return dict(zip(save.checkpoints, positions, strict=False))
