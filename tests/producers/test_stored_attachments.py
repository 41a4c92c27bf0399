"""Attachments whose bytes are in a blob store: what is written where, and what a reader is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from seekpoint.consumers.blobs.folder_blobs import FolderBlobs
from seekpoint.consumers.blobs.memory_blobs import MemoryBlobs
from seekpoint.producers import Node
from seekpoint.producers.importing import import_process
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import Limits, MemoryLog, Settings, bodies
from seekpoint.schemas.errors import (
    AttachmentDamaged,
    BlobStoreUnavailable,
    InvalidSetting,
    LimitExceeded,
    UnknownAttachment,
)

LARGE, SMALL = Random(1).randbytes(50_000), Random(2).randbytes(3_072)
LIMITS = Limits(record_bytes=4_096, attached_bytes=100_000)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1, limits=LIMITS)


@pytest.fixture
def blobs() -> MemoryBlobs:
    """An empty store."""
    return MemoryBlobs()


async def node_on(log: MemoryLog, blobs: MemoryBlobs | FolderBlobs | None, name: str) -> Node:
    """A node whose attachments go to the store."""
    node = await Node.in_memory(log, node_id=name)
    runtime_of(node).__dict__["blobs"] = blobs
    return node


@pytest.fixture
async def node(log: MemoryLog, blobs: MemoryBlobs) -> AsyncIterator[Node]:
    """One."""
    node = await node_on(log, blobs, "one")
    yield node
    await node.close()


@pytest.fixture
async def other(log: MemoryLog, blobs: MemoryBlobs) -> AsyncIterator[Node]:
    """Another one."""
    node = await node_on(log, blobs, "other")
    yield node
    await node.close()


async def test_bytes_beyond_one_entry_go_to_the_store(node: Node, blobs: MemoryBlobs) -> None:
    """The log has one entry that says so; what fits into an entry stays in the log. References are the same."""
    async with node.open("p") as process:
        large, small = await process.attach(LARGE, media_type="video/mp4"), await process.attach(SMALL)
        assert await process.attach(LARGE, media_type="video/mp4") == large
        assert await process.read_attachment(large) == LARGE
        assert await process.read_attachment(small) == SMALL
        await process.update("video", large)
        assert process.state.seq == 3
    assert [*blobs.blobs.values()] == [LARGE]
    state = (await node.recover("p")).state
    assert (state.attachments[large.digest].store, state.attached_bytes) == ("memory", 53_072)
    assert await node.read_attachment(state.context["video"]) == LARGE


async def test_lost_and_altered_bytes_are_told(node: Node, blobs: MemoryBlobs) -> None:
    """Whatever the store says."""
    async with node.open("p") as process:
        ref = await process.attach(LARGE)
    [key] = blobs.blobs
    blobs.blobs[key] = LARGE[:-1] + b"!"
    with pytest.raises(AttachmentDamaged, match="not those that were attached") as altered:
        await node.read_attachment(ref)
    assert altered.value.store == "memory"
    del blobs.blobs[key]
    with pytest.raises(AttachmentDamaged, match="does not have the bytes"):
        await node.read_attachment(ref)


async def test_a_program_with_another_store_is_told_which_one(log: MemoryLog, node: Node) -> None:
    """It does not ask a store that an entry names."""
    async with node.open("p") as process:
        ref = await process.attach(LARGE)
    for store in (None, MemoryBlobs("elsewhere")):
        reader = await node_on(log, store, "reader")
        with pytest.raises(InvalidSetting, match="set blob_store to memory"):
            await reader.read_attachment(ref)
        await reader.close()


async def test_a_store_that_fails_writes_no_reference(
    node: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a limit leave bytes in the store."""

    def fail(*given: object) -> None:
        raise BlobStoreUnavailable("away", store="memory")

    async with node.open("p") as process:
        with monkeypatch.context() as patched:
            patched.setattr(blobs, "put", fail)
            with pytest.raises(BlobStoreUnavailable):
                await process.attach(LARGE)
        with pytest.raises(LimitExceeded):
            await process.attach(bytes(100_001))
        assert (process.state.seq, blobs.blobs) == (0, {})
    async with node.open("s", shared=True) as thread:
        with pytest.raises(LimitExceeded):
            await thread.attach(bytes(100_001))
        assert blobs.blobs == {}


async def test_an_attachment_that_began_in_the_log_ends_there(log: MemoryLog, node: Node) -> None:
    """Its writer had no store, and died."""
    first = await node_on(log, None, "first")
    thread = await first.open("p", shared=True)
    ref = await thread.attach(LARGE)
    await thread.detach(ref)
    await thread.append(bodies.PartAttached(ref.digest, ref.size, 0, LARGE[:3_072]))
    await first.close()
    async with node.open("p") as process:
        await process.attach(LARGE)
        assert process.state.attachments[ref.digest].store == ""
        assert await process.read_attachment(ref) == LARGE


async def test_nodes_share_what_one_of_them_put(node: Node, other: Node, blobs: MemoryBlobs) -> None:
    """At once too, while others write."""
    here, there = await node.open("p", shared=True), await other.open("p", shared=True)
    refs, _ = await asyncio.gather(
        asyncio.gather(here.attach(LARGE), there.attach(LARGE)),
        asyncio.gather(*(there.record("busy", number) for number in range(10))),
    )
    assert refs[0] == refs[1]
    assert await here.read_attachment(refs[0]) == await there.read_attachment(refs[1]) == LARGE
    assert (await here.read()).attached_bytes == len(LARGE)
    assert len(blobs.blobs) == 1


async def test_a_deleted_process_is_erased_and_the_next_one_is_not(node: Node, other: Node, blobs: MemoryBlobs) -> None:
    """The next process of the id has a folder of its own: what deletes the old one takes nothing of it."""
    thread = await node.open("p", shared=True)
    ref = await thread.attach(LARGE)
    await other.delete("p")
    assert blobs.blobs == {}
    with pytest.raises(UnknownAttachment):
        await thread.read_attachment(ref)
    assert await thread.attach(LARGE) == ref
    assert await thread.read_attachment(ref) == LARGE
    [(folder, _)] = blobs.blobs
    assert folder.endswith("-2")


async def test_a_repeated_deletion_erases_nothing_of_the_next_process(node: Node, blobs: MemoryBlobs) -> None:
    """The caller did not learn of the first one, and others have begun the process anew."""
    thread = await node.open("p", shared=True)
    await thread.attach(LARGE)
    done = await node.delete("p", entry_id=b"d" * 16)
    ref = await thread.attach(LARGE)
    assert done is not None
    assert await node.delete("p", entry_id=b"d" * 16) == done._replace(is_repeated=True)
    assert await thread.read_attachment(ref) == LARGE


async def test_a_store_that_fails_behind_a_deletion_is_told_with_the_folder(
    node: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is deleted, and the same call again finds nothing to delete."""
    thread = await node.open("p", shared=True)
    await thread.attach(LARGE)
    [(folder, _)] = blobs.blobs

    def fail(folder: str) -> int:
        raise BlobStoreUnavailable("down", store="memory")

    monkeypatch.setattr(blobs, "erase", fail)
    with pytest.raises(BlobStoreUnavailable, match="the process is deleted") as failed:
        await node.delete("p")
    assert folder in str(failed.value)
    assert await node.delete("p") is None


async def test_bytes_that_were_put_for_a_process_that_is_deleted_meanwhile_are_put_again(
    node: Node, other: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry says nothing that the erased folder had."""
    thread = await node.open("p", shared=True)
    await thread.record("one")
    loop, put, deleted = asyncio.get_running_loop(), blobs.put, list[object]()

    def put_then_deleted(folder: str, digest: str, data: bytes) -> None:
        put(folder, digest, data)
        if not deleted:
            deleted.append(asyncio.run_coroutine_threadsafe(other.delete("p"), loop).result(10))

    monkeypatch.setattr(blobs, "put", put_then_deleted)
    ref = await thread.attach(LARGE)
    assert await thread.read_attachment(ref) == LARGE
    assert deleted


async def test_a_copy_finds_the_bytes_of_its_original(node: Node) -> None:
    """An import has the entry, and the store the bytes, under the original's id."""
    async with node.open("p") as process:
        ref = await process.attach(LARGE)
    history = [one async for one in node.entries("p")]
    await import_process(node, history, "copy")
    assert await node.read_attachment(ref, process_id="copy") == LARGE


async def test_a_folder_of_the_settings(tmp_path: Path) -> None:
    """``blob_store`` names it. Another program with the same setting reads it."""
    folder = tmp_path / "blobs"
    settings = Settings(journal_url=f"sqlite:///{tmp_path / 'runs.db'}", blob_store=f"file://{folder}")
    data = Random(3).randbytes(3_000_000)
    async with Node.connect(settings) as node, node.open("p") as process:
        ref = await process.attach(data)
    assert sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) == len(data)
    async with Node.connect(settings) as node:
        assert await node.read_attachment(ref) == data
    async with Node.connect(replace(settings, blob_store=None)) as node:
        with pytest.raises(InvalidSetting, match="set blob_store to file://"):
            await node.read_attachment(ref)


@pytest.mark.parametrize(
    "url", ["/srv/blobs", "file://blobs", "s3://", "s3://id:secret@blobs", "https://blobs", "s3://UPPER"]
)
def test_a_store_has_an_address_of_a_known_form(url: str) -> None:
    """No credentials: entries have its name."""
    with pytest.raises(InvalidSetting, match="blob_store must be file:///FOLDER or s3://BUCKET/PREFIX"):
        Settings(blob_store=url)
