"""Attachments of a process that one owner writes: what is written, who reads it, what a crash leaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from replay_checks import history, made
from seekpoint.consumers.recovery.attachments import read_attachment
from seekpoint.consumers.staging.capture.process_file import ProcessFile
from seekpoint.producers import Node, Process, SyncNode, check_replay
from seekpoint.producers.importing import import_process
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process import durable_side
from seekpoint.producers.writer.attachment_parts import part, ref_to
from seekpoint.schemas import Entry, Limits, MemoryLog, Ref, bodies, encode, new_id
from seekpoint.schemas.errors import (
    AttachmentDamaged,
    LimitExceeded,
    Refused,
    UnknownAttachment,
    UnknownProcess,
)

LIMITS = Limits(record_bytes=4_096, attached_bytes=200_000)
"""Limits with parts of 3,072 bytes."""


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1, limits=LIMITS)


def some_bytes(size: int) -> bytes:
    """Bytes that are no text."""
    return Random(size).randbytes(size)


async def parts(node: Node, process_id: str = "p") -> list[int]:
    """The sizes of the parts in the log."""
    entries = [one.entry.body async for one in node.entries(process_id)]
    return [len(body.data) for body in entries if isinstance(body, bodies.PartAttached)]


@pytest.mark.parametrize(
    ("size", "writes_alone"), [*((size, True) for size in (0, 1, 3_071, 3_072, 3_073, 60_000)), (3_073, False)]
)
async def test_what_is_attached_can_be_read(
    node: Node, size: int, writes_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its owner at once, and by anybody who has the reference. Each part is an entry within the limit."""
    data = some_bytes(size)
    if not writes_alone:
        monkeypatch.setattr(runtime_of(node).tailer, "_take", lambda tail, own: None)
        monkeypatch.setattr(runtime_of(node).tailer._follower, "_on_batch", lambda *given: None)
    async with node.open("p") as process:
        ref = await process.attach(data, media_type="image/png")
        assert ref == Ref(sha256(data).hexdigest(), size, "p", "image/png")
        assert await process.read_attachment(ref) == data
        await process.update("scan", {"first": ref})
    assert (await node.recover("p")).state.context == {"scan": {"first": ref}}
    assert await node.read_attachment(ref) == data
    assert await parts(node) == [min(3_072, size - at) for at in range(0, size or 1, 3_072)]


async def test_the_same_bytes_again_write_nothing(node: Node) -> None:
    """Nor does a later owner of the process write them."""
    async with node.open("p") as process:
        first = await process.attach(some_bytes(9_000))
        again = await asyncio.gather(*(process.attach(bytearray(some_bytes(9_000))) for _ in range(3)))
        assert again == [first] * 3
    async with node.open("p") as process:
        assert await process.attach(memoryview(some_bytes(9_000)), media_type="image/png") == replace(
            first, media_type="image/png"
        )
    assert await parts(node) == [3_072, 3_072, 2_856]


async def test_concurrent_attachments_are_all_whole(node: Node) -> None:
    """Their entries may lie between those of other calls."""
    async with node.open("p") as process:
        made = [some_bytes(size) for size in (50_000, 40_000, 30_000)]
        refs, _ = await asyncio.gather(
            asyncio.gather(*map(process.attach, made)),
            asyncio.gather(*(process.update(f"key-{number}", number) for number in range(50))),
        )
        assert [await process.read_attachment(ref) for ref in refs] == made


async def test_what_a_killed_writer_left_cannot_be_read(log: MemoryLog, node: Node) -> None:
    """It costs its parts. The next owner that attaches the same bytes writes only what is missing."""
    data = some_bytes(9_000)
    ref = await ref_to(data, "p", "text/plain")
    async with Node.in_memory(log, node_id="killed") as other:
        process = await other.open("p")
        for start in (0, 3_072):
            await durable_side(process).append(part(ref, data, start, LIMITS))
        with pytest.raises(UnknownAttachment) as early:
            await process.read_attachment(ref)
        assert (early.value.received, early.value.size) == (6_144, 9_000)
        durable_side(process).abandon()
    with pytest.raises(UnknownAttachment):
        await node.read_attachment(ref)
    async with node.open("p", take_over=True) as process:
        assert process.state.attached_bytes == 9_000
        assert await process.attach(data, media_type="text/plain") == ref
    assert await node.read_attachment(ref) == data
    assert await parts(node) == [3_072, 3_072, 2_856]


async def test_a_limit_is_told_before_anything_is_written(node: Node) -> None:
    """Bytes that were detached do not count any more."""
    async with node.open("p") as process:
        first = await process.attach(some_bytes(150_000))
        seq = process.state.seq
        with pytest.raises(LimitExceeded, match="200001 bytes of attachments, 200000 are allowed"):
            await process.attach(some_bytes(50_001))
        assert process.state.seq == seq
        await process.detach(first)
        await process.attach(some_bytes(50_001))
        with pytest.raises(UnknownAttachment, match="no such attachment"):
            await process.read_attachment(first)
        assert process.state.attached_bytes == 50_001


async def test_only_bytes_of_ones_own_process_are_attached_and_detached(node: Node) -> None:
    """The error says what to do instead."""
    async with node.open("other") as process:
        foreign = await process.attach(b"of another process")
    async with node.open("p") as process:
        with pytest.raises(Refused, match=r"made of bytes.*encode"):
            await process.attach("a text")  # type: ignore[arg-type]
        with pytest.raises(Refused, match="its own attachments only"):
            await process.detach(foreign)
        await process.detach()
        assert process.state.seq == 0
        assert await process.read_attachment(foreign) == b"of another process"
        with pytest.raises(UnknownProcess):
            await process.read_attachment(replace(foreign, process_id="nobody"))


async def test_an_altered_or_lost_part_is_found(log: MemoryLog, node: Node) -> None:
    """A reader that knows the state, from a checkpoint or a view, returns no byte that was not attached."""
    data = some_bytes(9_000)
    async with node.open("p") as process:
        ref = await process.attach(data)
    state = (await node.recover("p")).state
    records = log._partitions[0].records
    at = next(number for number, one in enumerate(records) if one.value and data[:40] in one.value)
    right = records[at]
    assert right.value is not None
    records[at] = right._replace(value=right.value.replace(data[:40], b"!" * 40))
    with pytest.raises(AttachmentDamaged, match="not those that were attached"):
        read_attachment(log, state, ref)
    for wrong in (right._replace(key=b"q"), right._replace(value=records[0].value), right._replace(value=b"junk")):
        records[at] = wrong
        with pytest.raises(AttachmentDamaged, match=r"in the log|has them"):
            read_attachment(log, state, ref)
    records[at] = right
    assert read_attachment(log, state, ref) == data
    log.trim(0, right.offset + 1)
    with pytest.raises(AttachmentDamaged, match="no longer in the log"):
        read_attachment(log, state, ref)


# --- copies
async def test_a_copy_of_a_process_has_its_bytes(node: Node, tmp_path: Path) -> None:
    """Exported and imported under another id: its references name the original, which is not there."""
    log = runtime_of(node).reader
    async with node.open("p") as process:
        ref = await process.attach(some_bytes(9_000))
        await process.update("scan", ref)
    ProcessFile.write(log, "p", tmp_path / "p.seekpoint")
    async with Node.in_memory(MemoryLog(limits=LIMITS)) as elsewhere:
        await import_process(elsewhere, ProcessFile(tmp_path / "p.seekpoint").entries, "copy")
        found = (await elsewhere.recover("copy")).state.context["scan"]
        assert found == ref
        assert await elsewhere.read_attachment(found, process_id="copy") == some_bytes(9_000)
        async with elsewhere.open("copy", take_over=True) as copy:
            assert await copy.read_attachment(found) == some_bytes(9_000)
        shared = await elsewhere.open("copy", shared=True)
        assert await shared.read_attachment(found) == some_bytes(9_000)
        with pytest.raises(UnknownProcess):
            await elsewhere.read_attachment(found)


async def test_a_process_seeded_by_a_replay_has_no_bytes(log: MemoryLog, node: Node) -> None:
    """Its state says what was attached. The offsets of the source mean nothing here, and are not read."""
    async with node.open("p") as process:
        ref = await process.attach(some_bytes(9_000))
    state = (await node.recover("p")).state
    seed = Entry(new_id(), "p", None, 0, None, None, 0, None, None, None, bodies.Seeded(state.to_bytes().decode()))
    other = MemoryLog(partitions=1, limits=LIMITS)
    other.append(0, b"p", encode(seed))
    async with Node.in_memory(other) as elsewhere:
        seeded = (await elsewhere.recover("p")).state
        assert (seeded.attachments, dict(seeded.attached_at)) == (state.attachments, {})
        assert seeded.hash == state.hash
        with pytest.raises(AttachmentDamaged, match="without --seeded"):
            await elsewhere.read_attachment(ref)
        async with elsewhere.open("p") as process:
            await process.detach(ref)
            assert await process.read_attachment(await process.attach(some_bytes(9_000))) == some_bytes(9_000)


async def test_a_fork_reads_what_its_parent_attached(node: Node) -> None:
    """Its references name the parent."""
    async with node.open("p") as process:
        await process.update("scan", await process.attach(some_bytes(9_000)))
    branch = await node.fork("p", "branch")
    assert await branch.read_attachment(branch.state.context["scan"]) == some_bytes(9_000)
    assert branch.state.attached_bytes == 0


# --- agents
async def test_an_agent_that_runs_again_gets_the_same_references(node: Node) -> None:
    """Attaching is no call: nothing is written twice, whatever order the code has. A replay check reads the history."""
    found: list[bytes] = []

    async def code(process: Process, input: Any) -> Any:
        first = await process.attach(some_bytes(9_000))
        scan = await process.step("scan", lambda: process.attach(b"of a step", media_type="text/plain"))
        found.append(await process.read_attachment(first))
        if len(found) == 1:
            raise OSError("the machine died")
        await process.detach(first)
        return {"scan": scan}

    with pytest.raises(OSError, match="the machine died"):
        await node.run(made(code), "p")
    result = await node.run(made(code), "p")
    assert found == [some_bytes(9_000)] * 2
    assert await parts(node) == [3_072, 3_072, 2_856, 9]
    assert await node.read_attachment(result["scan"]) == b"of a step"
    report = await check_replay(made(code), await history(node))
    assert (report.ok, report.ended_by) == (True, "result")
    assert len(found) == 3


async def test_a_child_reads_what_its_parent_attached(node: Node) -> None:
    """A reference says which process it belongs to."""

    async def child(process: Process, scan: Ref) -> int:
        return len(await process.read_attachment(scan))

    async def parent(process: Process, input: Any) -> Any:
        spawned = process.spawn(made(child, name="child"), "c", await process.attach(some_bytes(5_000)))
        return await spawned.result()

    assert await node.run(made(parent), "p") == 5_000


def test_plain_code_attaches_too(log: MemoryLog) -> None:
    """Without ``await``, as all calls."""
    with SyncNode.in_memory(log) as node:
        with node.open("p") as process:
            ref = process.attach(some_bytes(9_000))
            assert process.read_attachment(ref) == some_bytes(9_000)
            gone = process.attach(b"gone")
            process.detach(gone)
        with node.open("s", shared=True) as thread:
            shared = thread.attach(b"shared")
            assert thread.read_attachment(shared) == b"shared"
        assert node.read_attachment(ref) == some_bytes(9_000)
        with pytest.raises(UnknownAttachment):
            node.read_attachment(gone)
