"""Many programs on one file, and programs that are killed at random, for minutes. scripts/faults runs it.

An outside ledger has what each program was told is in the file.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.schemas.config.settings import Settings

pytestmark = pytest.mark.long

PROGRAM = """
import os
import sys
import threading
from pathlib import Path
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import ProducerRecord

log = SqliteLog(SqliteFile(Path(sys.argv[1]), Settings(partitions=2)), Settings())
told = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
room = threading.Semaphore(200)


def deliver(reports):
    assert all(one.error is None for one in reports), reports
    os.write(told, "".join(f"{one.token}\\n" for one in reports).encode())
    room.release(len(reports))


appender = log.appender(deliver)
first, count = int(sys.argv[3]), int(sys.argv[4])
for number in range(first, first + count):
    room.acquire()
    appender.send([ProducerRecord(number % 2, b"p", b"%d" % number, number)])
appender.retire(60)
"""
EACH = 10_000_000
FOR_EVER = EACH - 1


def start(folder: Path, run: int, count: int) -> subprocess.Popen[bytes]:
    words = [str(folder / "runs.db"), str(folder / f"told-{run}"), str(run * EACH), str(count)]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *words], env=os.environ)


def check(folder: Path, open_file: OpenFile) -> int:
    """Each record that a program was told of is there once; those of a program are in order. Return how many."""
    told = [line for file in folder.glob("told-*") for line in file.read_text().split("\n")[:-1]]
    log = SqliteLog(open_file(), Settings())
    found = [
        int(record.value or b"")
        for partition in (0, 1)
        for batch in log.read(partition, 0, log.watermarks(partition).high)
        for record in batch.records
    ]
    assert len(found) == len({*found})
    for run in {number // EACH for number in found}:
        for parity in (0, 1):
            own = [number for number in found if number // EACH == run and number % 2 == parity]
            assert own == sorted(own)
    assert {*map(int, told)} <= {*found}
    connection = sqlite3.connect(folder / "runs.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return len(told)


def test_fifty_programs_share_a_file(tmp_path: Path, open_file: OpenFile) -> None:
    """Each writes its 200 records: none is lost, refused or twice there."""
    programs = [start(tmp_path, run, 200) for run in range(50)]
    assert [program.wait(600) for program in programs] == [0] * 50
    assert check(tmp_path, open_file) == 50 * 200


def test_what_was_told_survives_kills_at_random(tmp_path: Path, open_file: OpenFile) -> None:
    """Three programs write; one after the other is killed at any moment, and another one takes its place."""
    rng = random.Random(5)
    running = [start(tmp_path, run, FOR_EVER) for run in range(3)]
    for run in range(3, 63):
        time.sleep(rng.uniform(0.05, 1.5))
        victim = running.pop(rng.randrange(3))
        assert victim.poll() is None
        victim.kill()
        victim.wait(60)
        running.append(start(tmp_path, run, FOR_EVER))
    for program in running:
        program.kill()
        program.wait(60)
    assert check(tmp_path, open_file) > 1_000
