"""``seekpoint blobs``: what a blob store has of a process, and what it erases."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from seekpoint.consumers.blobs.folder_blobs import FolderBlobs
from seekpoint.consumers.blobs.process_blobs import folder_of
from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import Settings
from shells import Shell

LARGE = Random(7).randbytes(1_000_000)


@pytest.fixture
def settings(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A journal in a file, with a store in a folder; the command line has them too."""
    made = Settings(journal_url=f"sqlite:///{tmp_path / 'runs.db'}", blob_store=f"file://{tmp_path / 'blobs'}")
    monkeypatch.setenv("SEEKPOINT_JOURNAL_URL", str(made.journal_url))
    monkeypatch.setenv("SEEKPOINT_BLOB_STORE", str(made.blob_store))
    return made


def test_what_is_left_from_before_a_deletion_is_erased(tmp_path: Path, settings: Settings, shell: Shell) -> None:
    """A writer was killed. What belongs to the process now stays, and so does what another journal put there."""

    async def deleted_and_begun_anew() -> str:
        async with Node.connect(settings) as node:
            async with node.open("thread-9", shared=True) as thread:
                await thread.attach(LARGE)
                await node.delete("thread-9")
                await thread.attach(LARGE)
            return runtime_of(node).reader.topic_id

    topic_id = asyncio.run(deleted_and_begun_anew())
    store = FolderBlobs(tmp_path / "blobs")
    for journal in (topic_id, "another"):
        store.put(folder_of("thread-9", journal, 0), "f0" * 32, b"left")
    shown = shell("blobs", "thread-9", "--json").json["folders"]
    assert [(one["of"], one["attachments"], one["erased"]) for one in shown] == [
        ("deleted", 1, False), ("current", 1, False), ("another journal", 1, False),
    ]  # fmt: skip
    assert "--erase erases them" in shell("blobs", "thread-9").err
    erased = shell("blobs", "thread-9", "--erase", "--json").json["folders"]
    assert [(one["of"], one["erased"]) for one in erased] == [
        ("deleted", True), ("current", False), ("another journal", False),
    ]  # fmt: skip
    again = shell("blobs", "thread-9", "--erase")
    assert ("deleted" in again.out, again.err.splitlines()[-1]) == (False, "erased: 0 attachments")


def test_the_bytes_of_a_finished_process_are_erased_when_asked(settings: Settings, shell: Shell) -> None:
    """Nothing else erases them: a finished process is never deleted."""

    async def finished() -> None:
        async with Node.connect(settings) as node, node.open("case-17") as process:
            await process.attach(LARGE)
            await process.finish()

    asyncio.run(finished())
    [shown] = shell("blobs", "case-17", "--json").json["folders"]
    assert (shown["of"], shown["erased"]) == ("finished", False)
    assert shell("blobs", "case-17", "--erase").err.endswith("erased: 1 attachments\n")
    for process_id in ("case-17", "nobody"):
        assert shell("blobs", process_id, "--json").json["folders"] == []


def test_without_a_store_the_setting_is_named(
    tmp_path: Path, settings: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attachments are in the journal then."""

    async def begun() -> None:
        async with Node.local(tmp_path / "runs.db") as node, node.open("case-17") as process:
            await process.attach(LARGE)

    asyncio.run(begun())
    monkeypatch.delenv("SEEKPOINT_BLOB_STORE")
    ran = shell("blobs", "case-17")
    assert ran.code == 2
    assert "SEEKPOINT_BLOB_STORE" in ran.err
