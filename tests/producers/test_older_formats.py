"""Journals of format 1: this version reads them whole, and writes nothing into them until they are upgraded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consoles import file_settings
from older_journals import OLD_PROCESS, OLD_STATE, old_file, old_kafka_journal, old_memory_log
from seekpoint.compose import create_topics_sync
from seekpoint.compose.creation import check_topics_sync, raise_format_sync
from seekpoint.consumers import Projector, Recoverer
from seekpoint.consumers.journal_log import embedded_log
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.producers import Client, Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import OlderFormat
from seekpoint.schemas.log.manifest import FORMAT

New = tuple[Callable[[], Node], Callable[[], Client]]


@agent("greeter")
async def greeter(process: Process, name: str) -> Any:
    """Greet."""
    return await process.step("hello", "hello {}".format, name)


def ends(log: Any) -> list[int]:
    """Where each partition of a log ends."""
    return [log.watermarks(partition).high for partition in range(log.partitions)]


async def refuses_to_write(log: Any, new: New) -> None:
    """Every program that would write gets ``OlderFormat``, and the log stays as it was."""
    before = ends(log)
    new_node, new_client = new
    with pytest.raises(OlderFormat, match="older format") as caught:
        await new_node().__aenter__()
    assert (caught.value.format, caught.value.known) == (1, FORMAT)
    assert "seekpoint upgrade" in str(caught.value.hint)
    async with new_client() as client:
        assert (await client.state(OLD_PROCESS)).content_hash == OLD_STATE.content_hash
        for call in (
            client.signal(OLD_PROCESS, "wake"),
            client.cancel(OLD_PROCESS),
            client.submit("greeter", "new", "Ada"),
        ):
            with pytest.raises(OlderFormat):
                await call
    assert ends(log) == before


async def writes(new: New) -> None:
    """After the upgrade a node runs a process, and the old one is still the same."""
    new_node, _ = new
    async with new_node() as node:
        assert await node.run(greeter, "new", "Ada") == "hello Ada"
        assert (await node.recover(OLD_PROCESS)).state.content_hash == OLD_STATE.content_hash


async def test_a_journal_of_format_1_in_memory() -> None:
    """It is read, refused, upgraded, written."""
    log = old_memory_log()
    new = (lambda: Node.in_memory(log), lambda: Client.in_memory(log))
    assert Recoverer(log).recover(OLD_PROCESS).state == OLD_STATE
    await refuses_to_write(log, new)
    log.raise_format()
    await writes(new)


async def test_a_journal_of_format_1_in_a_file(tmp_path: Path) -> None:
    """It is read, refused, upgraded, written. A reader that was open meanwhile goes on."""
    settings = file_settings(tmp_path)
    old_file(settings)
    log = embedded_log(settings)
    assert log is not None
    new = (lambda: Node.connect(settings), lambda: Client.connect(settings))
    assert Recoverer(log).recover(OLD_PROCESS).state == OLD_STATE
    await refuses_to_write(log, new)
    with pytest.raises(OlderFormat):
        await Projector.connect(settings).catch_up()
    assert log.table("schemas").items().keys() == {b"8c3cc9d84ec6e2d6"}
    other = embedded_log(settings)
    assert other is not None
    other.file.raise_format()
    other.close()
    await writes(new)
    log.file.new_connection().close()  # compares the manifest
    assert Recoverer(log).recover("new").state.finished
    await Projector.connect(settings).catch_up()
    log.close()


@pytest.mark.cluster
async def test_a_journal_of_format_1_on_kafka(settings: Settings) -> None:
    """It is read, refused, upgraded, written. ``topics create`` leaves its format, and ``topics check`` says so."""
    old_kafka_journal(settings)
    log = KafkaReader(settings)
    new = (lambda: Node.connect(settings), lambda: Client.connect(settings))
    assert Recoverer(log).recover(OLD_PROCESS).state == OLD_STATE
    await refuses_to_write(log, new)
    with pytest.raises(OlderFormat):
        await Projector.connect(settings).catch_up()
    with pytest.raises(OlderFormat):
        await RecoveryService(settings).start()
    assert (await asyncio.to_thread(create_topics_sync, settings)).format == 1
    [finding] = [one for one in await asyncio.to_thread(check_topics_sync, settings) if one.setting == "format"]
    assert (finding.severity, finding.found, "seekpoint upgrade" in finding.advice) == ("warning", "1", True)
    for _ in range(2):
        assert (await asyncio.to_thread(raise_format_sync, settings)).format == FORMAT
    assert "format" not in {one.setting for one in await asyncio.to_thread(check_topics_sync, settings)}
    await writes(new)
    log.close()
