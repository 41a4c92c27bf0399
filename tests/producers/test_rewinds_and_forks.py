"""Rewinds and forks: which content a process goes on with, and what stays as it was. In memory."""

from __future__ import annotations

import pytest

from folding import refold
from idle_tailers import at_rest
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import Fenced, LimitExceeded, Refused, UnknownPoint, UnknownProcess


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def test_rewind_restores_content_and_keeps_history(log: MemoryLog) -> None:
    """O7: context, conversation and lifecycle are those after an earlier seq; epoch, owner and seq go on."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.update("a", 1)
        await process.say("user", "one")
        before = process.state
        await process.update("a", 2)
        await process.say("user", "two")
        await process.rewind(2)
        state = process.state
        assert state.content_hash == before.content_hash
        assert (state.seq, state.epoch, state.lineage.rewound_to_seq) == (5, 1, 2)
        assert refold(log, "p").hash == state.hash
        with pytest.raises(Refused):
            await process.rewind(99)


async def test_an_owner_that_lost_its_process_does_not_rewind_to_what_its_heir_wrote(log: MemoryLog) -> None:
    """Its own seqs were never applied, the heir's of the same numbers were: Fenced, and nothing is written."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as two:
        process = await one.open("p")
        await at_rest(one)
        async with two.open("p", take_over=True) as heir:
            await heir.update("a", "heir's")
        await process.update("a", "mine")
        await process.update("b", "mine")
        for seq in (1, 2):
            with pytest.raises(Fenced):
                await process.rewind(seq)


async def test_a_fork_has_its_parents_content_and_leaves_the_parent_alone(log: MemoryLog) -> None:
    """O7: content_hash(child) = content_hash(parent at that point); the parent's bytes do not change."""
    async with Node.in_memory(log) as node:
        async with node.open("parent") as process:
            await process.update("a", 1)
            at_one = process.state
            await process.update("a", 2)
        partition_ends = [log.watermarks(partition) for partition in range(2)]
        parent_hash = refold(log, "parent").hash
        async with node.fork("parent", "child", at_seq=1) as child:
            assert child.state.content_hash == at_one.content_hash
            assert (child.state.lineage.parent_id, child.state.lineage.parent_seq) == ("parent", 1)
            await child.update("b", 1)
        assert refold(log, "parent").hash == parent_hash
        with pytest.raises(Refused):
            await node.fork("parent", "child")
        assert [log.watermarks(partition) for partition in range(2)] != partition_ends


async def test_a_fork_that_cannot_be_made_uses_up_no_id() -> None:
    """No parent, no such seq: typed, and the id is as free as before."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        async with node.open("parent") as process:
            await process.update("a", 1)
            await process.update("b", 2)
        for parent, at_seq, error in (
            ("nobody", None, UnknownProcess),
            ("parent", 99, UnknownPoint),
        ):
            with pytest.raises(error):
                await node.fork(parent, "child", at_seq=at_seq)
        assert not (await node.recover("child", missing_ok=True)).known
        async with node.fork("parent", "child", at_seq=1) as child:
            assert list(child.state.context) == ["a"]


async def test_content_larger_than_an_entry_is_rewound_to_and_forked() -> None:
    """Up to the limit of a state; what does not fit beside what a rewind keeps is refused, and nothing is written."""
    log = MemoryLog(partitions=1, limits=Limits(record_bytes=1_000, state_bytes=3_000))
    async with Node.in_memory(log) as node:
        async with node.open("parent") as process:
            for key in "abc":
                await process.update(key, "x" * 900)
            full = process.state.content_hash
            await process.clear()
            await process.rewind(3)
            assert process.state.content_hash == full
            await process.clear()
            await process.effect("pay", _paid, "y" * 300)
            before = process.state.seq
            with pytest.raises(LimitExceeded):
                await process.rewind(3)
            assert process.state.seq == before
            await process.confirm()
        async with node.fork("parent", "child", at_seq=3) as child:
            assert child.state.content_hash == full


async def _paid(text: str) -> str:
    return text
