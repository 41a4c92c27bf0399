"""Programs that change their working directory while they have a journal in a file, named by a relative path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seekpoint.consumers.blobs.folder_blobs import FolderBlobs
from seekpoint.producers import Client, Node, Process, agent
from seekpoint.schemas.config.settings import Settings


@agent("plain")
async def plain(process: Process, number: int) -> int:
    """Return the number, by way of a step in a thread."""
    return await process.step("same", int, number)


async def test_a_relative_path_is_that_of_the_program_when_it_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a node, a client, settings and a folder of blobs alike."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = Settings(journal_url="sqlite:///runs.db")
    blobs = FolderBlobs("blobs")
    async with Node.local("runs.db") as node, Client.local("runs.db") as client:
        assert await node.run(plain, "before", 1) == 1
        monkeypatch.chdir(tmp_path / "other")
        assert await node.run(plain, "after", 2) == 2
        assert await client.result("after") == 2
    async with Node.connect(settings) as node:
        assert (await node.recover("after")).state.result == 2
    blobs.put("folder", "digest", b"bytes")
    assert {"runs.db", "blobs"} <= {*os.listdir(tmp_path)}
    assert not os.listdir(tmp_path / "other")
