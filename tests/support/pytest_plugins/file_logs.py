"""With ``SEEKPOINT_TEST_LOG=sqlite`` every ``MemoryLog`` of the tests keeps its records in a SQLite file.

So the suites that know only the log in memory, with its faults, also run on the embedded log: its storage, its reads,
its tails and its appenders. What a file cannot have (open transactions, elections of leaders) its tests leave out.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seekpoint.consumers.sqlite.sqlite_appender import SqliteAppender
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records, marks_of, place_of
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log import memory_log
from seekpoint.schemas.log.log_ports import Batch, DeliveryReport, Extent, Landmark, ProducerRecord, Watermarks
from seekpoint.schemas.log.memory_log import MemoryAppender, MemoryLog

__all__ = ["FileAppender", "FileLog", "closing_files", "skip_what_needs_memory", "use_files_if_asked"]

VARIABLE = "SEEKPOINT_TEST_LOG"
_MEMORY = Path("/dev/shm")
"""Where the files lie, if there is one: what the machine's disk does is not under test."""
_open: list[FileLog] = []


def use_files_if_asked() -> None:
    """Replace ``MemoryLog`` before any test is imported, if the environment asks for it."""
    if os.environ.get(VARIABLE) == "sqlite":
        memory_log.MemoryLog = FileLog  # type: ignore[misc]
        memory_log.MemoryAppender = FileAppender  # type: ignore[misc]


_READS_ALL = "it counts records of other keys, which a read of a file does not pass over"
_PATCHES = "it patches the log in memory from inside"
_DARKENS = (
    "it darkens the reads of the log in memory: the tail of a file reads elsewhere, and the entry needs no healing"
)
_IN_ONE_STEP = "it counts steps of the event loop, in which a file has not acknowledged an append: another branch wins"
_COMMITS = "the acknowledgement of a file is its commit, which is not lost: a node that writes alone reads nothing back"
_AT_ONCE = "an appender in memory reports before send returns, one of a file does so from its own thread"
_DIES_SOONER = "crash_at ends a node in the next round of the event loop, when a file has not acknowledged its entry"
_NEEDS_MEMORY = {
    "test_an_append_is_reported_with_its_offset": _AT_ONCE,
    "test_dropped_acknowledgements_arrive_after_heal": _AT_ONCE,
    "test_refused_appends_are_appended_in_order_after_heal": _AT_ONCE,
    "test_a_retired_appender_reports_open_records_as_failed_and_accepts_no_more": _AT_ONCE,
    "test_a_read_by_key_gives_those_and_counts_the_others": _READS_ALL,
    "test_a_report_counts_what_was_read_and_what_was_applied": _READS_ALL,
    "test_a_process_is_recovered_with_a_report": _READS_ALL,
    "test_a_view_is_completed_from_the_tail": _READS_ALL,
    "test_the_seek_point_is_the_floor_where_that_is_higher": _READS_ALL,
    "test_a_node_that_closes_while_its_heartbeat_is_written_leaves_none_of_it": _PATCHES,
    "test_a_lost_acknowledgement_heals_without_anybody_noticing": _DARKENS,
    "test_an_entry_that_is_read_back_needs_no_acknowledgement": _COMMITS,
    "test_a_tail_that_stays_behind_makes_no_progress": _PATCHES,
    "test_a_reader_that_may_not_write_letters_reads_on_and_says_so": _PATCHES,
    "test_an_appender_that_cannot_be_retired_is_replaced": _PATCHES,
    "test_who_waits_hears_of_a_close_whose_appender_cannot_be_retired": _PATCHES,
    "test_a_tail_of_a_node_whose_thread_ended_is_noticed": _PATCHES,
    "test_a_tail_whose_thread_ended_is_noticed": _PATCHES,
    "test_a_claim_right_behind_ours_is_not_missed": _PATCHES,
    "test_an_owner_that_only_waits_learns_that_the_log_is_damaged": _PATCHES,
    "test_a_resumed_fork_repeats_what_its_branches_decided": _IN_ONE_STEP,
    "test_who_waits_for_mail_waits_for_kafka_too": _PATCHES,
    "test_the_dying_nodes_code_goes_on_only_where_it_heard[acknowledged-2]": _DIES_SOONER,
}
"""The tests that are about the log in memory, or about what only it does."""


def skip_what_needs_memory(items: Sequence[pytest.Item]) -> None:
    """Skip the tests that cannot run on files, with the reason, where files were asked for."""
    if os.environ.get(VARIABLE) == "sqlite":
        for item in items:
            reason = _NEEDS_MEMORY.get(item.name) or _NEEDS_MEMORY.get(item.name.partition("[")[0])
            if reason is not None and item.parent is not None and "Sqlite" not in item.parent.name:
                item.add_marker(pytest.mark.skip(reason=reason))


@contextmanager
def closing_files() -> Iterator[None]:
    """Close and delete the files that were made inside the block."""
    yield
    while _open:
        _open.pop().remove()


class FileLog(MemoryLog):
    """A ``MemoryLog`` whose records and tables are in a file."""

    def __init__(
        self, partitions: int = 8, limits: Limits = DEFAULT_LIMITS, name: str = "memory", **release: Any
    ) -> None:
        super().__init__(partitions, limits, name, **release)
        self._directory = tempfile.mkdtemp(prefix="seekpoint-file-log-", dir=_MEMORY if _MEMORY.is_dir() else None)
        settings = Settings(journal=name, partitions=partitions, redis_url=None)
        self.sqlite = SqliteLog(SqliteFile(Path(self._directory) / "runs.db", settings, limits=limits), settings)
        self._tails = 0
        _open.append(self)

    def remove(self) -> None:
        self.sqlite.close()
        for name in os.listdir(self._directory):
            os.unlink(os.path.join(self._directory, name))
        os.rmdir(self._directory)

    # --- reading
    def watermarks(self, partition: int) -> Watermarks:
        return self.sqlite.watermarks(partition)

    def extent(self, partition: int) -> Any:
        low, high = self.watermarks(partition)
        return Extent(low, high, high)

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        return self.sqlite.read(partition, start, stop, keys)

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        return self.sqlite.offset_at(partition, timestamp_ms)

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        return self.sqlite.leader_epoch_at(partition, offset)

    def landmark(self, partition: int, offset: int) -> Landmark:
        return Landmark(offset, 0)

    def tail(self, *, is_steady: bool = False) -> Any:
        return self.sqlite.tail(is_steady=is_steady)

    def table(self, name: str) -> Any:
        return self.sqlite.table(name)

    # --- writing
    def append(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> int:
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        for appender in list(self._appenders):  # what was sent before comes before it, as in memory
            assert isinstance(appender, FileAppender)
            appender.settle()

        def insert(connection: Any) -> int:
            offset = marks_of(connection, "journal", partition).high
            insert_records(connection, "journal", [(place_of(partition, offset), stamp, key, value)])
            return offset

        offset = self.sqlite.file.write(insert)
        with self.appended:
            self.appended.notify_all()
        return offset

    def trim(self, partition: int, offset: int) -> None:
        self.sqlite.delete_below(partition, offset)

    def hide(self, partition: int) -> None:
        pytest.skip("a file has no open transactions")

    def elect(self, partition: int, offset: int | None = None) -> None:
        pytest.skip("a file has no leaders")


class FileAppender(MemoryAppender):
    """The appender of a file, with the faults of the one in memory before and behind it."""

    def __init__(self, log: MemoryLog, deliver: Callable[[Sequence[DeliveryReport]], None]) -> None:
        super().__init__(log, deliver)
        assert isinstance(log, FileLog)
        self._files = log
        self._sent: dict[int, ProducerRecord] = {}
        self._guard = threading.Lock()
        self._inner = SqliteAppender(log.sqlite.file, "journal", self._reported)

    def send(self, records: Sequence[ProducerRecord]) -> int:
        if self._retired:
            return 0
        with self._guard:
            self._waiting += records
            batch = self._waiting if self._files._accepts else []
            if batch:
                self._waiting = []
                self._sent |= {id(record.token): record for record in batch}
            reports = self._acknowledged([])
        if batch:
            self._inner.send(batch)
        if reports:
            self._deliver(reports)
        return len(records)

    def settle(self) -> None:
        """Wait until all that was sent is written."""
        inner = self._inner
        with inner._changed:
            assert inner._changed.wait_for(lambda: inner._is_idle() or inner._is_retired, 30)

    def _reported(self, reports: Sequence[DeliveryReport]) -> None:
        with self._files.appended:
            self._files.appended.notify_all()
        with self._guard:
            found = self._acknowledged(reports)
        if found:
            self._deliver(found)

    def _acknowledged(self, reports: Sequence[DeliveryReport]) -> list[DeliveryReport]:
        self._unacknowledged += reports
        if not self._files._acknowledges:
            return []
        found, self._unacknowledged = self._unacknowledged, []
        for one in found:
            self._sent.pop(id(one.token), None)
        return found

    def retire(self, drain_s: float) -> None:
        if self._retired:
            return
        self._retired = True
        self._inner.retire(drain_s)
        lost = JournalUnavailable("the appender was retired before an acknowledgement came")
        tokens = [*(one.token for one in self._sent.values()), *(one.token for one in self._waiting)]
        if tokens:
            self._deliver([DeliveryReport(token, -1, lost) for token in tokens])
