"""The appender of an embedded log: order, acknowledgements, failures, and kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite.sqlite_appender import SqliteAppender
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord


class Reports:
    """What an appender delivered."""

    def __init__(self) -> None:
        self.all: list[DeliveryReport] = []
        self._changed = threading.Condition()

    def deliver(self, reports: Sequence[DeliveryReport]) -> None:
        with self._changed:
            self.all += reports
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[DeliveryReport]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.all) >= count, 30)
            return self.all


def records(partition: int, *values: bytes) -> list[ProducerRecord]:
    return [ProducerRecord(partition, b"p", value, value) for value in values]


def written(log: SqliteLog, partition: int) -> list[bytes | None]:
    high = log.watermarks(partition).high
    return [one.value for batch in log.read(partition, 0, high) for one in batch.records]


def test_records_are_appended_in_order_with_their_offsets(open_file: OpenFile) -> None:
    """Several partitions in one call, several appenders on one file."""
    log, told = SqliteLog(open_file(partitions=3), Settings()), Reports()
    first, second = log.appender(told.deliver), SqliteLog(open_file(), Settings()).appender(told.deliver)
    assert first.send([*records(0, b"1", b"2"), *records(2, b"3")]) == 3
    assert {one.token: one.offset for one in told.wait_for(3)} == {b"1": 0, b"2": 1, b"3": 0}
    second.send(records(0, b"4"))
    told.wait_for(4)
    first.send(records(0, b"5"))
    assert [one.offset for one in told.wait_for(5)][3:] == [2, 3]
    assert (written(log, 0), written(log, 2)) == ([b"1", b"2", b"4", b"5"], [b"3"])
    first.retire(1.0)
    second.retire(1.0)


def test_a_report_has_the_record_as_a_read_returns_it(open_file: OpenFile) -> None:
    """So nobody has to read it back; a report of a failure has none."""
    log, told = SqliteLog(open_file(partitions=3), Settings()), Reports()
    appender = log.appender(told.deliver)
    appender.send([*records(0, b"1", b"2"), *records(2, b"3")])
    reported = [one.record for one in told.wait_for(3)]
    assert reported == [
        one for at in (0, 2) for batch in log.read(at, 0, log.watermarks(at).high) for one in batch.records
    ]
    appender.retire(1.0)


def test_two_programs_that_append_at_once_share_the_offsets(open_file: OpenFile) -> None:
    """None twice, none missing; each one's records stay in its order."""
    told = [Reports(), Reports()]
    appenders = [SqliteLog(open_file(partitions=1), Settings()).appender(one.deliver) for one in told]
    for number in range(300):
        for name, appender in zip((b"a", b"b"), appenders, strict=True):
            appender.send(records(0, name + b"%d" % number))
    for one in told:
        assert [report.error for report in one.wait_for(300)] == [None] * 300
    assert sorted(report.offset for one in told for report in one.all) == [*range(600)]
    values = written(SqliteLog(open_file(), Settings()), 0)
    for name in (b"a", b"b"):
        own = [value for value in values if value is not None and value.startswith(name)]
        assert own == [name + b"%d" % number for number in range(300)]
    for appender in appenders:
        appender.retire(1.0)


def test_a_failed_transaction_reports_all_and_nothing_more_is_appended(
    open_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came behind a lost record must not be in the log without it."""
    log, told = SqliteLog(open_file(), Settings()), Reports()
    appender = log.appender(told.deliver)
    appender.send(records(0, b"1"))
    told.wait_for(1)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteAppender, "_insert", full)
        appender.send(records(0, b"2", b"3"))
        failed = told.wait_for(3)[1:]
    assert [(one.token, one.offset) for one in failed] == [(b"2", -1), (b"3", -1)]
    assert all(isinstance(one.error, JournalUnavailable) for one in failed)
    appender.send(records(0, b"4"))
    appender.retire(0.1)
    assert told.wait_for(4)[3].offset == -1
    assert written(log, 0) == [b"1"]
    assert appender.send(records(0, b"5")) == 0
    appender.retire(0.1)


def test_a_retired_appender_first_writes_what_it_was_given(open_file: OpenFile) -> None:
    """Within the drain time; every record has its report when ``retire`` returns."""
    log, told = SqliteLog(open_file(), Settings()), Reports()
    appender = log.appender(told.deliver)
    appender.send(records(0, *(b"%d" % number for number in range(5_000))))
    appender.retire(20.0)
    assert len(told.all) == 5_000
    assert len(written(log, 0)) == sum(one.error is None for one in told.all) == 5_000


PROGRAM = """
import os
import sys
from pathlib import Path
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import ProducerRecord

log = SqliteLog(SqliteFile(Path(sys.argv[1]), Settings(partitions=2)), Settings())
told = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)


def deliver(reports):
    os.write(told, "".join(f"{one.token}\\n" for one in reports if one.error is None).encode())


appender = log.appender(deliver)
number = int(sys.argv[3])
while True:
    appender.send([ProducerRecord(number % 2, b"p", b"%d" % number, number)])
    number += 1
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, open_file: OpenFile) -> None:
    """Killed five times while it appends: the file opens, and has each acknowledged record once and in order."""
    acknowledged: list[int] = []
    for run in range(5):
        told = tmp_path / f"told-{run}"
        told.touch()
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, tmp_path / "runs.db", told, str(run * 10_000_000)], env=os.environ
        )
        while told.stat().st_size < 2_000:
            assert program.poll() is None
        program.send_signal(signal.SIGKILL)
        program.wait(20)
        acknowledged += [int(line) for line in told.read_text().split("\n")[:-1]]  # the last one may be half a line
    log = SqliteLog(open_file(), Settings())
    found = [[int(value or b"") for value in written(log, partition)] for partition in (0, 1)]
    assert [*map(sorted, found)] == found
    assert {*acknowledged} <= {number for values in found for number in values}
    assert len(acknowledged) == len({*acknowledged}) > 500
