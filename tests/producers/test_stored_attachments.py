"""Attachments whose bytes are in a blob store: what is written where, and what a reader is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

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
    Fenced,
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


async def test_a_deletion_that_could_not_erase_is_made_again(
    node: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is deleted. The same call finds nothing to delete, and erases what is left."""
    thread = await node.open("p", shared=True)
    await thread.attach(LARGE)

    def fail(folder: str) -> int:
        raise BlobStoreUnavailable("down", store="memory")

    with monkeypatch.context() as patched:
        patched.setattr(blobs, "erase", fail)
        with pytest.raises(BlobStoreUnavailable, match=r"the process is deleted.*make the same call again"):
            await node.delete("p")
    assert len(blobs.blobs) == 1
    assert await node.delete("p") is None
    assert blobs.blobs == {}


async def test_a_deletion_asks_the_store_before_it_writes(log: MemoryLog, tmp_path: Path) -> None:
    """Whether a folder that is not there is a new store, or one that is not mounted, nobody can know."""
    node = await node_on(log, FolderBlobs(tmp_path / "blobs"), "new")
    async with node.open("p", shared=True) as thread:
        await thread.record("one")
        assert await node.delete("unknown") is None
        with pytest.raises(BlobStoreUnavailable, match="deleted nothing: the folder of the blob store is not there"):
            await node.delete("p")
        assert (await thread.read()).seq == 1
        (tmp_path / "blobs").mkdir()
        done = await node.delete("p")
    assert done is not None
    assert done.seq == 2
    await node.close()


async def test_a_deletion_erases_the_process_that_it_deletes_whichever_was_read_before(
    node: Node, other: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node deletes the process and begins it anew, between the read and the entry of the deletion."""
    thread = await node.open("p", shared=True)
    await thread.attach(LARGE)
    append = node.append

    async def append_late(*given: Any, **how: Any) -> Any:
        await other.delete("p")
        async with other.open("p", shared=True) as next_thread:
            await next_thread.attach(LARGE)
        return await append(*given, **how)

    monkeypatch.setattr(node, "append", append_late)
    done = await node.delete("p")
    assert done is not None
    assert done.seq == 4
    assert blobs.blobs == {}


async def test_a_deletion_takes_nothing_of_the_same_process_in_another_journal(node: Node, blobs: MemoryBlobs) -> None:
    """A copy for staging reads the bytes of the original. Deleting it must not erase them there."""
    async with node.open("p") as process:
        ref = await process.attach(LARGE)
    staging = await node_on(MemoryLog(partitions=1, limits=LIMITS, name="staging"), blobs, "staging")
    await import_process(staging, [one async for one in node.entries("p")], "p")
    assert await staging.read_attachment(ref) == LARGE
    await staging.delete("p")
    await staging.close()
    assert await node.read_attachment(ref) == LARGE


async def test_a_copy_finds_whole_bytes_beside_damaged_ones(node: Node, blobs: MemoryBlobs) -> None:
    """Several journals may have put them."""
    async with node.open("p") as process:
        ref = await process.attach(LARGE)
    await import_process(node, [one async for one in node.entries("p")], "copy")
    [(folder, digest)] = blobs.blobs
    blobs.put(f"{folder.split('/')[0]}/0000-0", digest, b"damaged")
    assert await node.read_attachment(ref, process_id="copy") == LARGE
    del blobs.blobs[folder, digest]
    with pytest.raises(AttachmentDamaged, match="not those that were attached"):
        await node.read_attachment(ref, process_id="copy")


async def test_an_owner_that_lost_the_process_to_a_deletion_leaves_no_bytes(
    node: Node, other: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still while the process was deleted and begun anew, and puts its bytes behind the deletion."""
    process = await node.open("p")
    await process.record("one")
    loop, put = asyncio.get_running_loop(), blobs.put

    async def deleted() -> None:
        async with other.open("p", take_over=True) as taken:
            await taken.record("two")
        await other.delete("p")
        async with other.open("p", shared=True) as thread:
            await thread.attach(LARGE)

    def put_late(folder: str, digest: str, data: bytes) -> None:
        monkeypatch.setattr(blobs, "put", put)
        asyncio.run_coroutine_threadsafe(deleted(), loop).result(30)
        put(folder, digest, data)

    monkeypatch.setattr(blobs, "put", put_late)
    with pytest.raises(Fenced):
        await process.attach(LARGE)
    [(folder, digest)] = blobs.blobs
    assert folder.endswith("-4")
    assert blobs.blobs[folder, digest] == LARGE


async def test_an_owner_that_has_not_read_of_the_deletion_leaves_no_bytes_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file takes its entry behind the deletion: only reading what lies before tells that it does not count."""
    settings = Settings(journal_url=f"sqlite:///{tmp_path / 'runs.db'}", blob_store=f"file://{tmp_path / 'blobs'}")
    data = Random(3).randbytes(3_000_000)
    (tmp_path / "blobs").mkdir()
    async with Node.connect(settings, node_id="a") as here, Node.connect(settings, node_id="b") as there:
        former = await here.open("p")
        await former.record("one")
        monkeypatch.setattr(runtime_of(here).tailer._follower, "_on_batch", lambda *given: None)
        async with there.open("p", take_over=True) as taken:
            await taken.record("two")
        await there.delete("p")
        with pytest.raises(Fenced):
            await former.attach(data)
    assert [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()] == []


async def test_an_owner_that_has_read_of_the_deletion_puts_no_bytes(tmp_path: Path) -> None:
    """It is fenced: the folder of the process that was deleted, and began again, is another owner's."""
    settings = Settings(journal_url=f"sqlite:///{tmp_path / 'runs.db'}", blob_store=f"file://{tmp_path / 'blobs'}")
    (tmp_path / "blobs").mkdir()
    async with Node.connect(settings, node_id="a") as here, Node.connect(settings, node_id="b") as there:
        former = await here.open("p")
        async with there.open("p", take_over=True) as taken:
            await taken.record("two")
        await there.delete("p")
        with pytest.raises(Fenced):
            await former.record("one")
            await former.confirm()
        with pytest.raises(Fenced):
            await former.attach(Random(3).randbytes(3_000_000))
    assert [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()] == []


async def test_bytes_that_were_put_for_a_process_that_is_deleted_meanwhile_are_put_again(
    node: Node, other: Node, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry refers to the new folder. What was put into the old one behind the deletion is erased."""
    thread = await node.open("p", shared=True)
    await thread.record("one")
    loop, put, deleted = asyncio.get_running_loop(), blobs.put, list[object]()

    def put_behind_deletion(folder: str, digest: str, data: bytes) -> None:
        if not deleted:
            deleted.append(asyncio.run_coroutine_threadsafe(other.delete("p"), loop).result(30))
        put(folder, digest, data)

    monkeypatch.setattr(blobs, "put", put_behind_deletion)
    ref = await thread.attach(LARGE)
    assert await thread.read_attachment(ref) == LARGE
    assert deleted
    assert [folder.rpartition("-")[2] for folder, _ in blobs.blobs] == ["2"]


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
