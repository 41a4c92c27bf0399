"""The tail of an embedded log: what it finds, and when it says that it cannot read on."""

from __future__ import annotations

import time

from open_files import OpenFile
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records, place_of
from seekpoint.consumers.sqlite.sqlite_tail import SqliteTail
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.tail import TailBatch


def write(file: SqliteFile, partition: int, *offsets: int) -> None:
    rows = [(place_of(partition, offset), 0, b"p", b"%d" % offset) for offset in offsets]
    file.write(lambda connection: insert_records(connection, "journal", rows))


def next_batch(tail: SqliteTail) -> TailBatch:
    """The next batch, whenever it comes."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if found := tail.poll(0.05):
            return found[0]
    raise AssertionError("nothing came")


def test_many_partitions_are_followed_at_once(open_file: OpenFile) -> None:
    """More than one statement reads, each its own records in order."""
    log = SqliteLog(open_file(partitions=250), Settings())
    tail = log.tail()
    for partition in range(250):
        tail.begin(partition, 0)
    write(log.file, 3, 0, 1)
    write(log.file, 207, 0)
    found = {batch.partition: [batch.record(at).offset for at in range(len(batch.keys))] for batch in tail.poll(5)}
    assert found == {3: [0, 1], 207: [0]}
    write(log.file, 3, 2)
    assert [batch.record(0).offset for batch in tail.poll(5)] == [2]
    tail.close()


def test_a_tail_that_was_passed_by_a_trim_of_all_says_so(open_file: OpenFile) -> None:
    """There is no record behind its position, and none will come there: it says so without another change."""
    log = SqliteLog(open_file(partitions=2), Settings())
    tail = log.tail()
    tail.begin(0, 0)
    write(log.file, 0, 0, 1, 2)
    assert next_batch(tail).next_offset == 3
    write(log.file, 0, 3, 4)
    log.delete_below(0, 5)
    batch = next_batch(tail)
    assert (batch.broken, batch.next_offset) == (True, 3)
    tail.close()
