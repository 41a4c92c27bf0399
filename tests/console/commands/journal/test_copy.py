"""``seekpoint copy``: a journal in a file goes on on Kafka, with its ids, its calls and its waiting submissions."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.sqlite.sqlite_records import insert_records, place_of
from seekpoint.producers import Client, Node, Process, Worker, agent
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.partition import partition_of
from shells import Shell

pytestmark = pytest.mark.cluster

CALLS: list[str] = []


def call(name: str) -> str:
    CALLS.append(name)
    return f"{name} done"


@agent("mover")
async def mover(process: Process, input: Any) -> Any:
    first = await process.step("first", call, "first")
    await process.receive("go on")
    return [first, await process.step("second", call, "second")]


def replace_record(connection: sqlite3.Connection, place: int) -> None:
    """Put another record, with its own checksum, in the place of one."""
    timestamp_ms, key = connection.execute("SELECT timestamp_ms, key FROM journal WHERE place = ?", (place,)).fetchone()
    connection.execute("DELETE FROM journal WHERE place = ?", (place,))
    insert_records(connection, "journal", [(place, timestamp_ms, key, b"\0")])


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteLog]:
    settings = Settings(
        journal=f"moved-{uuid4().hex[:8]}", partitions=3, journal_url=f"sqlite:///{tmp_path / 'runs.db'}"
    )
    log = SqliteLog(SqliteFile(tmp_path / "runs.db", settings), settings)
    yield log
    log.close()


@pytest.fixture
def kafka(journal: Settings, source: SqliteLog) -> Settings:
    """The journal of the source on the session's Kafka."""
    return replace(journal, journal=source.name, partitions=3, redis_url=None)


async def half_done(source: SqliteLog) -> None:
    """A run that waits for mail, one that is finished, and a submission that no worker has read."""
    CALLS.clear()
    async with Worker([mover], source.settings) as worker, Client.connect(source.settings) as client:
        for process_id in ("waiting", "finished"):
            await client.submit(mover, process_id)
        await client.signal("finished", "go on")
        await client.result("finished", 60)
        while not any(one == "waiting" for one in worker.waiting):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.05)
    async with Client.connect(source.settings) as client:
        await client.submit(mover, "unread")


async def test_a_run_goes_on_on_kafka(source: SqliteLog, kafka: Settings, shell: Shell, tmp_path: Path) -> None:
    """What was called before is not called again; results, waiting mail and unread submissions are there."""
    await half_done(source)
    assert sorted(CALLS) == ["first", "first", "second"]
    url = f"sqlite:///{source.file.path}"
    how = ("copy", url, "--into", kafka.bootstrap_servers, "--journal", source.name)
    moved = shell(*how, "--json")
    assert moved.code == 0, moved.err
    records = sum(source.watermarks(partition).high for partition in range(3))
    assert moved.json == {"journal": source.name, "records": records, "sent": records, "submissions": 1}
    async with Node.local(source.file.path, journal=source.name) as here, Node.connect(kafka) as there:
        for process_id in ("waiting", "finished"):
            ours, theirs = await here.recover(process_id), await there.recover(process_id)
            assert ours.state.hash == theirs.state.hash
    CALLS.clear()
    async with Worker([mover], kafka), Client.connect(kafka) as client:
        for process_id in ("waiting", "unread"):
            await client.signal(process_id, "go on")
            assert await client.result(process_id, 60) == ["first done", "second done"]
        assert await client.result("finished", 60) == ["first done", "second done"]
    assert sorted(CALLS) == ["first", "second", "second"]
    again = shell(*how)
    assert (again.code, "the target has other records" in again.err) == (4, True), again


async def test_an_interrupted_copy_goes_on(source: SqliteLog, kafka: Settings, shell: Shell) -> None:
    """What is there already is compared and not sent again."""
    await half_done(source)
    how = ("copy", f"sqlite:///{source.file.path}", "--into", kafka.bootstrap_servers, "--journal", source.name)
    partition = partition_of(b"waiting", 3)
    held: list[Any] = []

    def take(connection: sqlite3.Connection) -> None:
        held[:] = connection.execute("SELECT * FROM journal WHERE place >= ?", ((partition << 40) + 2,)).fetchall()
        connection.execute("DELETE FROM journal WHERE place >= ?", ((partition << 40) + 2,))

    source.file.write(take)
    assert shell(*how).code == 0
    source.file.write(lambda one: insert_records(one, "journal", [row[:4] for row in held]))
    moved = shell(*how, "--json").json
    assert moved["sent"] == len(held)
    assert shell(*how, "--json").json["sent"] == 0


async def test_what_would_not_be_a_copy_is_refused(source: SqliteLog, kafka: Settings, shell: Shell) -> None:
    """A source that is used or was trimmed, a target with other records or partitions, no Kafka at all."""
    await half_done(source)
    how = ("copy", f"sqlite:///{source.file.path}", "--into", kafka.bootstrap_servers, "--journal", source.name)
    async with Node.connect(source.settings):
        while not source.table("nodes").items():  # noqa: ASYNC110  # its first heartbeat
            await asyncio.sleep(0.02)
        used = shell(*how)
        assert (used.code, "programs use the journal" in used.err) == (4, True), used
    assert shell(*how, "--as", f"{source.name}-2").code == 0
    partition = partition_of(b"waiting", 3)
    source.file.write(lambda one: replace_record(one, place_of(partition, 0)))
    other = shell(*how, "--as", f"{source.name}-2")
    assert (other.code, "the target has other records" in other.err) == (4, True), other
    source.delete_below(partition, 1)
    trimmed = shell(*how, "--as", f"{source.name}-3")
    assert (trimmed.code, "was trimmed" in trimmed.err) == (4, True), trimmed
    nowhere = shell("copy", f"sqlite:///{source.file.path}", "--into", "127.0.0.1:1", "--journal", source.name)
    assert nowhere.code == 3
    missing = shell("copy", "sqlite:///missing.db", "--into", kafka.bootstrap_servers)
    assert (missing.code, "no such file" in missing.err) == (3, True)


async def test_records_that_the_target_refuses_for_their_time_are_named(
    source: SqliteLog, kafka: Settings, shell: Shell
) -> None:
    """The error names the setting of the topic that refuses them."""
    how = ("copy", f"sqlite:///{source.file.path}", "--into", kafka.bootstrap_servers, "--journal", source.name)
    async with Node.local(source.file.path, journal=source.name):
        pass
    assert shell(*how).code == 0
    async with Node.local(source.file.path, journal=source.name) as node:
        for number in range(50):
            async with node.open(f"p-{number}") as process:
                await process.update("x", number)
    entry = ConfigEntry("message.timestamp.before.max.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, kafka.topic_name("journal"), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    [done] = admin.incremental_alter_configs([resource]).values()
    await asyncio.to_thread(done.result, 30)
    refused = shell(*how)
    assert refused.code not in (0, 1), refused
    assert "message.timestamp.before.max.ms" in refused.err, refused.err
