"""The inbox of a journal in a file: what ``KafkaInbox`` is for a group of workers on Kafka."""

from __future__ import annotations

import sqlite3
import time

from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_team import SqliteTeamMember
from seekpoint.schemas.log.log_ports import Record


class SqliteInboxMember:
    """A member of a group of workers. For one thread. Raises ``JournalUnavailable`` and ``JournalMismatch``."""

    def __init__(self, journal: SqliteLog, group: str) -> None:
        self._file = journal.file
        self._inbox = journal.inbox()
        self._team = f"workers.{group}"
        self._member = SqliteTeamMember(journal.file, self._team)
        self._tail = self._inbox.tail()
        self.assigned: frozenset[int] = frozenset()
        self.is_joined = False

    def poll(self, timeout_s: float) -> list[Record]:
        """Return the next records of the assigned partitions."""
        until_s = time.monotonic() + timeout_s
        if self._member.look() or not self.is_joined:
            self._take_over()
        found: list[Record] = []
        for batch in self._tail.poll(max(0.0, until_s - time.monotonic())):
            if batch.broken:  # it was trimmed: go on at the first record
                self._tail.begin(batch.partition, self._inbox.watermarks(batch.partition).low)
            found += [batch.record(index) for index in range(len(batch.keys))]
        return found

    def _take_over(self) -> None:
        """Follow the partitions that are new here, from where the group has done all before."""
        now = self._member.assigned
        for partition in self.assigned - now:
            self._tail.end(partition)
        for partition in now - self.assigned:
            self._tail.begin(partition, max(self._committed(partition), self._inbox.watermarks(partition).low))
        self.assigned = now
        self.is_joined = True

    def _committed(self, partition: int) -> int:
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT done FROM commits WHERE team = ? AND partition = ?", (self._team, partition)
            ).fetchone()
        return 0 if row is None else row[0]

    def commit(self, partition: int, offset: int) -> None:
        """Store that all records below ``offset`` are done, unless the partition is assigned elsewhere now."""

        def store(connection: sqlite3.Connection) -> None:
            if self._member.membership.holds(connection, [partition]):
                connection.execute("INSERT OR REPLACE INTO commits VALUES (?, ?, ?)", (self._team, partition, offset))

        self._file.write(store)

    def close(self) -> None:
        """Leave the group: the others get the partitions within a second. Idempotent."""
        self._tail.close()
        self._member.leave()
