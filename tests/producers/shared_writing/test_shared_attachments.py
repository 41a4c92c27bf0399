"""Attachments of a process that several nodes write to."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from seekpoint.producers import Node, SharedProcess
from seekpoint.schemas import Limits, MemoryLog, bodies
from seekpoint.schemas.errors import IllegalCall, LimitExceeded, UnknownAttachment

BYTES = Random(1).randbytes(60_000)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1, limits=Limits(record_bytes=4_096, attached_bytes=100_000))


async def test_what_one_node_attaches_every_node_reads(node: Node, other: Node) -> None:
    """As soon as the call has returned, whatever a node knew before."""
    here, there = await node.open("p", shared=True), await other.open("p", shared=True)
    ref = await here.attach(BYTES, media_type="image/png", actor="web")
    assert await there.read_attachment(ref) == BYTES
    assert await here.read_attachment(ref) == BYTES
    await there.update("scan", ref)
    assert (await here.read()).context == {"scan": ref}
    assert await node.read_attachment(ref) == BYTES
    seq = here.state.seq
    assert await there.attach(BYTES, media_type="image/png") == ref
    assert (await here.read()).seq == seq, "the same bytes again write nothing"
    assert {one.entry.actor async for one in node.entries("p") if one.entry.kind == "part_attached"} == {"web"}


async def test_nodes_may_attach_the_same_bytes_at_once(node: Node, other: Node) -> None:
    """While others write. They count once."""
    here, there = await node.open("p", shared=True), await other.open("p", shared=True)
    refs, _ = await asyncio.gather(
        asyncio.gather(here.attach(BYTES), there.attach(BYTES), there.attach(b"small")),
        asyncio.gather(*(here.record("busy", n) for n in range(20))),
    )
    assert refs[0] == refs[1]
    state = await here.read()
    assert state.attached_bytes == len(BYTES) + 5
    assert state.degraded is None
    assert await there.read_attachment(refs[0]) == BYTES
    assert await here.read_attachment(refs[2]) == b"small"


async def test_what_is_detached_is_gone_for_every_node(node: Node, other: Node) -> None:
    """And may be attached again."""
    here, there = await node.open("p", shared=True), await other.open("p", shared=True)
    ref = await here.attach(BYTES)
    await there.detach(ref)
    await here.read()
    with pytest.raises(UnknownAttachment):
        await here.read_attachment(ref)
    await here.attach(BYTES)
    assert await there.read_attachment(ref) == BYTES


async def test_a_node_that_does_not_know_of_a_detach_writes_the_bytes_again(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks into the log before it takes bytes for written."""
    here, there = await node.open("p", shared=True), await other.open("p", shared=True)
    ref = await here.attach(BYTES)
    before = here.state
    await there.detach(ref)
    with monkeypatch.context() as late:
        late.setattr(SharedProcess, "state", property(lambda _: before))  # its tail is late
        assert await here.attach(BYTES) == ref
    assert await there.read_attachment(ref) == BYTES


async def test_what_was_detached_or_deleted_is_not_read_by_an_old_state(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that begins after the other node's call has returned does not find the bytes."""
    here = await node.open("p", shared=True)
    for gone in ("detached", "deleted"):
        ref = await here.attach(BYTES)
        before = here.state
        if gone == "detached":
            await (await other.open("p", shared=True)).detach(ref)
        else:
            await other.delete("p")
        with monkeypatch.context() as late:
            late.setattr(SharedProcess, "state", before)  # its tail is late
            with pytest.raises(UnknownAttachment):
                await here.read_attachment(ref)


async def test_a_limit_and_a_part_out_of_order_are_refused(node: Node) -> None:
    """Nothing is written then, and the process goes on."""
    thread = await node.open("p", shared=True)
    with pytest.raises(LimitExceeded):
        await thread.attach(bytes(100_001))
    with pytest.raises(IllegalCall):
        await thread.append(bodies.PartAttached("0" * 64, 9, 3, b"xyz"))
    assert (await thread.read()).seq == 0
    await thread.attach(BYTES)
