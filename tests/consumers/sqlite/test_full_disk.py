"""A full disk below the file of an embedded log: programs wait for room and go on. On a small file system."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records
from seekpoint.consumers.sqlite.sqlite_team import SqliteTeamMember
from seekpoint.producers import Client, Node, Process, Worker, agent
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalFull, JournalUnavailable
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord


class SmallDisk:
    """A file system of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, left: int = 0) -> None:
        """Let another program use all but the last ``left`` bytes."""
        descriptor = os.open(self._filler, os.O_CREAT | os.O_WRONLY)
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, bytes(4096))
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - left)
        os.close(descriptor)

    def make_room(self) -> None:
        """Delete what that program wrote, and let the disk grow."""
        self._filler.unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of eight megabytes; skipped where nobody may mount one."""
    (folder := tmp_path / "disk").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


async def test_a_large_entry_waits_for_room_though_a_small_one_fits(disk: SmallDisk) -> None:
    """An effect's receipt is not lost, its step is not run again, and no claim fills what is left."""
    paid: list[str] = []

    def pay() -> str:
        paid.append("paid")
        disk.fill(left=50_000)
        return os.urandom(450_000).hex()

    @agent("large")
    async def large(process: Process, given: object) -> int:
        return len(await process.step("pay", pay))

    async with Node.local(disk.folder / "runs.db") as node:
        run = asyncio.ensure_future(node.run(large, "p"))
        await asyncio.wait([run], timeout=3.0)
        assert not run.done()
        disk.make_room()
        assert await asyncio.wait_for(run, 30) == 900_000
        assert paid == ["paid"]
        assert (await node.recover("p")).state.epoch == 1


async def test_a_worker_its_clients_and_its_projector_go_on_once_there_is_room(disk: SmallDisk) -> None:
    """Submissions and signals wait, no part of the worker ends, and what waited is done."""

    @agent("patient")
    async def patient(process: Process, given: str) -> str:
        await process.step("one", len, given)
        return str((await process.receive("go")).payload)

    path = disk.folder / "runs.db"
    async with Worker.local([patient], path) as worker, Client.local(path) as client:
        await client.submit("patient", "p", "x")
        while worker.started < 1:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.05)
        disk.fill()
        waiting = [
            asyncio.ensure_future(client.submit("patient", "q", "x" * 800_000)),
            asyncio.ensure_future(client.signal("p", "go", "y" * 800_000)),
        ]
        await asyncio.wait(waiting, timeout=4.0)
        assert not all(one.done() for one in waiting)  # SQLite's own log may have had room for one of them
        assert not any(one.exception() for one in waiting if one.done())
        assert worker.failure is None
        disk.make_room()
        await asyncio.wait_for(asyncio.gather(*waiting), 30)
        assert len(await client.result("p", 30)) == 800_000
        await client.signal("q", "go", "z")
        assert await client.result("q", 30) == "z"
    assert worker.failure is None


async def test_a_node_is_closed_while_it_waits_for_room(disk: SmallDisk) -> None:
    """A program that is stopped does not wait for a disk: who waits gets a typed error."""
    async with Node.local(disk.folder / "runs.db") as node:
        await node.signal("p", "first", 1)
        disk.fill()
        waiting = asyncio.ensure_future(node.signal("p", "second", "x" * 900_000))
        await asyncio.wait([waiting], timeout=1.0)
        assert not waiting.done()
    with pytest.raises(Exception, match=r"closed|grow"):
        await asyncio.wait_for(waiting, 5)


def _limited(log: SqliteLog, pages: int) -> None:
    """Let the file grow no further than by ``pages``; SQLite then answers as if the disk were full."""
    log.file.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {_pages(log) + pages}").fetchall())


def _pages(log: SqliteLog) -> int:
    with log.file.reading() as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


def test_an_appender_repeats_a_transaction_that_found_no_room(open_file: OpenFile) -> None:
    """Nothing of it was written, and nothing overtakes it; ``retire`` ends the wait with ``JournalFull``."""
    log, delivered, changed = SqliteLog(open_file(partitions=1), Settings()), list[DeliveryReport](), threading.Event()

    def deliver(reports: object) -> None:
        delivered.extend(reports)  # type: ignore[arg-type]  # a sequence of reports
        changed.set()

    appender = log.appender(deliver)
    _limited(log, 2)
    appender.send([ProducerRecord(0, b"p", b"x" * 100_000, 1)])
    appender.send([ProducerRecord(0, b"p", b"small", 2)])
    assert not changed.wait(1.2)
    _limited(log, 1_000)
    assert changed.wait(10)
    appender.retire(10.0)
    assert [(one.token, one.offset, one.error) for one in delivered] == [(1, 0, None), (2, 1, None)]
    second = log.appender(deliver)
    _limited(log, 2)
    delivered.clear()
    second.send([ProducerRecord(0, b"p", b"x" * 100_000, 3)])
    second.retire(0.2)
    assert [(one.token, type(one.error)) for one in delivered] == [(3, JournalFull)]


def test_without_room_a_member_keeps_its_partitions(open_file: OpenFile) -> None:
    """Nobody else can take them either. Who has none yet is told."""
    log = SqliteLog(open_file(partitions=2), Settings())
    first, second = SqliteTeamMember(log.file, "a"), SqliteTeamMember(log.file, "a")
    assert first.look()
    rows = [(offset, 0, b"p", b"x" * 1_000) for offset in range(500)]
    _limited(log, 0)
    with pytest.raises(JournalFull):
        while True:
            log.file.write(lambda connection: insert_records(connection, "journal", [rows.pop()]))
    log.file.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())
    first._process = second._process = f'"{"x" * 100_000}"'  # a beat needs room
    first.look_soon()
    assert not first.look()
    assert first.assigned == {0, 1}
    with pytest.raises(JournalUnavailable):
        second.look()
