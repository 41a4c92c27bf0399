"""Deleting a process: who may, what readers find then, and what nothing brings back."""

from __future__ import annotations

import asyncio

import pytest

from seekpoint.producers import Effect, Node
from seekpoint.schemas.bodies import ContextUpdated, Deleted
from seekpoint.schemas.errors import (
    AlreadyOpen,
    AppendConflict,
    IllegalTransition,
    OwnerAlive,
    ProcessFinished,
    Refused,
    UnknownPoint,
    UnknownProcess,
)


async def _written(node: Node) -> None:
    async with node.open("p", shared=True) as thread:
        await thread.update("a", 1)
        await thread.say("user", "hello")


async def test_an_owner_opens_a_deleted_process_as_a_new_one(node: Node) -> None:
    """Its code sees nothing of the old one; leaving it unwritten leaves it deleted."""
    await _written(node)
    await node.delete("p")
    async with node.open("p") as process:
        assert (process.state.context, process.state.seq) == ({}, 3)
    with pytest.raises(UnknownProcess):
        await node.recover("p")
    async with node.open("p") as process:
        await process.update("b", 2)
        assert (await node.recover("p")).state.context == {"b": 2}


async def test_nothing_goes_back_behind_a_deletion(node: Node) -> None:
    """No rewind and no fork has the content. The log has it, until it is trimmed."""
    await _written(node)
    await node.delete("p")
    async with node.open("p") as process:
        await process.update("b", 2)
        for seq in (1, 2, 3):
            with pytest.raises(Refused, match="no such seq"):
                await process.rewind(seq)
        await process.rewind(4)
    with pytest.raises(Refused, match="no such seq"):
        await node.rewind("p", to=1)
    for moment in (1, 2):
        with pytest.raises(Refused, match="deleted after"):
            await node.fork("p", "fork", at=moment)
    async with node.fork("p", "fork", at=4) as fork:
        assert fork.state.context == {"b": 2}
    assert (await node.recover("p", at_seq=1)).state.context == {"a": 1}
    with pytest.raises(UnknownPoint, match="was deleted"):
        await node.recover("p", at_seq=3)


async def test_no_fork_brings_back_what_its_parent_was_deleted_with(node: Node) -> None:
    """It was forked before the deletion, and keeps what it has. The parent stays as it began anew."""
    await _written(node)
    async with node.fork("p", "fork") as fork:
        await fork.say("user", "more")
    await node.delete("p")
    await node.append("p", ContextUpdated("b", "2"))
    for dry in (True, False):
        with pytest.raises(Refused, match="was deleted after it was forked"):
            await node.promote("fork", prefer="fork", dry_run=dry)
    assert len((await node.recover("p")).state.conversation) == 0


async def test_nothing_is_written_where_nothing_is_deleted(node: Node) -> None:
    """An unknown process, and one that is deleted; with the seq that it has."""
    assert await node.delete("p") is None
    assert await node.delete("p", expected_seq=0) is None
    with pytest.raises(AppendConflict):
        await node.delete("p", expected_seq=1)
    await _written(node)
    with pytest.raises(AppendConflict):
        await node.delete("p", expected_seq=1)
    assert await node.delete("p", expected_seq=2) is not None
    assert await node.delete("p", expected_seq=3) is None
    assert [one.entry.seq async for one in node.entries("p") if isinstance(one.entry.body, Deleted)] == [3]


async def test_a_process_that_only_has_mail_is_deleted(node: Node) -> None:
    """The mail is content; what is sent later begins the process anew."""
    await node.signal("p", "go", {"name": "Ann"})
    done = await node.delete("p")
    assert done is not None
    assert done.seq == 1
    with pytest.raises(UnknownProcess):
        await node.recover("p")
    await node.signal("p", "go", 2)
    state = (await node.recover("p")).state
    assert [one.payload for one in state.mailbox.values()] == [2]


async def test_what_may_not_be_deleted(node: Node, other: Node) -> None:
    """What an owner has open, what has finished, what has made calls."""
    async with node.open("p") as process:
        await process.update("a", 1)
        with pytest.raises(AlreadyOpen):
            await node.delete("p")
        with pytest.raises(OwnerAlive):
            await other.delete("p")
        await process.effect("pay", asyncio.sleep, 0, semantics=Effect.IDEMPOTENT)
    with pytest.raises(IllegalTransition, match="has calls"):
        await other.delete("p")
    async with node.open("q") as process:
        await process.finish(1)
    with pytest.raises(ProcessFinished):
        await other.delete("q")
    assert (await node.recover("p")).state.context == {"a": 1}


async def test_of_a_deletion_and_a_write_at_once_one_comes_first(node: Node, other: Node) -> None:
    """With the seq that both expect, exactly one is written."""
    await _written(node)
    there = await other.open("p", shared=True)
    for number in range(5):
        seq = (await there.read()).seq
        found = await asyncio.gather(
            node.delete("p", expected_seq=seq), there.update("n", number, expected_seq=seq), return_exceptions=True
        )
        assert sum(isinstance(one, AppendConflict) for one in found) == 1
        state = await there.read()
        assert state.seq == seq + 1
        assert (state.context == {}) == state.is_deleted == isinstance(found[1], AppendConflict)
        await there.update("next", number)


async def test_a_deletion_forgets_no_entry_id(node: Node, other: Node) -> None:
    """A call from before it that is repeated behind it writes nothing into the new process."""
    thread = await node.open("p", shared=True)
    bare = await thread.update("a", 1, entry_id=b"1" * 16)
    expecting = await thread.update("b", 2, expected_seq=1, entry_id=b"2" * 16)
    deleted = await node.delete("p")
    assert deleted is not None
    for repeater in (node, other):
        late = await repeater.open("p", shared=True)
        assert await late.update("a", 1, entry_id=b"1" * 16) == bare._replace(is_repeated=True)
        assert await late.update("b", 2, expected_seq=1, entry_id=b"2" * 16) == expecting._replace(is_repeated=True)
    state = (await node.recover("p", missing_ok=True)).state
    assert (state.is_deleted, state.deleted_seq) == (True, deleted.seq)
    assert bare.seq < expecting.seq < state.deleted_seq
    async with other.open("p") as owned:  # an owner's calls know them too
        await owned.update("c", 3)
        assert (await owned.update("a", 1, entry_id=b"1" * 16)).is_repeated
        assert owned.state.context == {"c": 3}
