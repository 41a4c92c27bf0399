"""The appender of a log in a SQLite file: a thread that writes all waiting records in one transaction.

Records that come while a transaction is being synchronised go into the next one, so the number of records per
synchronisation grows with the load. While the disk has no room the thread waits, and writes the records later.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_records import insert_records, marks_of, place_of
from seekpoint.schemas.errors import JournalFull, JournalUnavailable, SeekpointError
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord, Record

_logger = logging.getLogger("seekpoint.consumers")

_QUEUE_MAX = 100_000
_RECORDS_MAX = 2_000
_BYTES_MAX = 16 * 1024 * 1024
"""The records and bytes of one transaction."""
_ROOM_PAUSE_S = 0.5
"""How often a full disk is tried again."""


class SqliteAppender:
    """Appends to one table of records, in the order of ``send``. After a failure it appends nothing more."""

    def __init__(self, file: SqliteFile, topic: str, deliver: Callable[[Sequence[DeliveryReport]], None]) -> None:
        self._file = file
        self._topic = topic
        self._deliver = deliver
        self._waiting: deque[ProducerRecord] = deque()
        self._changed = threading.Condition()
        self._is_writing = False
        self._failure: SeekpointError | None = None
        self._is_retired = False
        self._thread = threading.Thread(target=self._work, name="seekpoint-sqlite", daemon=True)
        self._thread.start()

    def send(self, records: Sequence[ProducerRecord]) -> int:
        """Enqueue records from the front of ``records`` and return how many the queue had room for."""
        with self._changed:
            if self._is_retired:
                return 0
            taken = min(len(records), _QUEUE_MAX - len(self._waiting))
            self._waiting.extend(records[:taken])
            self._changed.notify_all()
        return taken

    def retire(self, drain_s: float) -> None:
        """Wait up to ``drain_s`` seconds for records in flight, then report the others as failed and end."""
        with self._changed:
            if not self._is_retired:
                self._changed.wait_for(lambda: self._failure is not None or self._is_idle(), drain_s)
                self._is_retired = True
                self._changed.notify_all()
        self._thread.join()
        lost = self._failure or JournalUnavailable("the appender was retired before the record was written")
        self._report_failed(self._take_all(), lost)

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_writing

    def _take_all(self) -> list[ProducerRecord]:
        with self._changed:
            taken = [*self._waiting]
            self._waiting.clear()
        return taken

    # --- in the thread
    def _work(self) -> None:
        while (records := self._next()) is not None:
            try:
                written = self._written(records)
            except SeekpointError as exc:
                self._end(records, exc)
                return
            self._deliver(
                [DeliveryReport(one.token, at.offset, None, at) for one, at in zip(records, written, strict=True)]
            )
            self._file.changes.note()
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()

    def _written(self, records: list[ProducerRecord]) -> list[Record]:
        """Write the records in one transaction. One that finds no room leaves nothing: it is repeated."""
        is_full = False
        while True:
            try:
                written = self._file.write(partial(self._insert, records), is_noted=False)
            except JournalFull as exc:
                if not is_full:
                    _logger.warning("appends wait for room: %s", exc)
                is_full = True
                with self._changed:
                    if self._changed.wait_for(lambda: self._is_retired, _ROOM_PAUSE_S):
                        raise
            else:
                if is_full:
                    _logger.warning("there is room again: %d records are written", len(records))
                return written

    def _end(self, records: list[ProducerRecord], failure: SeekpointError) -> None:
        """Report the records of a failed transaction, and all that wait, as failed."""
        with self._changed:
            self._failure = failure
        self._report_failed([*records, *self._take_all()], failure)
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()

    def _next(self) -> list[ProducerRecord] | None:
        """Wait for records, and return those of the next transaction; None once the appender was retired."""
        with self._changed:
            while not self._waiting and not self._is_retired:
                self._changed.wait()
            if self._is_retired:
                return None
            self._is_writing = True
            taken: list[ProducerRecord] = []
            size = 0
            while self._waiting and len(taken) < _RECORDS_MAX and size < _BYTES_MAX:
                taken.append(self._waiting.popleft())
                size += len(taken[-1].value)
            return taken

    def _insert(self, records: list[ProducerRecord], connection: sqlite3.Connection) -> list[Record]:
        """Give the records their offsets and insert them; return them as they are in the file."""
        now_ms = time.time_ns() // 1_000_000
        ends: dict[int, int] = {}
        written, rows = [], []
        for partition, key, value, _ in records:
            offset = ends.get(partition)
            if offset is None:
                offset = marks_of(connection, self._topic, partition).high
            ends[partition] = offset + 1
            written.append(Record(partition, offset, now_ms, key, value))
            rows.append((place_of(partition, offset), now_ms, key, value))
        insert_records(connection, self._topic, rows)
        return written

    def _report_failed(self, records: Sequence[ProducerRecord], failure: SeekpointError) -> None:
        if records:
            self._deliver([DeliveryReport(one.token, -1, failure) for one in records])
