"""What shared writing promises on every log, as one suite: a test of a log inherits it and brings three ``nodes``."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from seekpoint.producers import Node
from seekpoint.schemas.errors import AppendConflict, OwnerAlive, UnknownProcess
from seekpoint.schemas.state.process_state import State

__all__ = ["SharedWritingContract"]


async def _read(node: Node, process_id: str) -> State:
    """The state as a reader recovers it who writes nothing."""
    return (await node.recover(process_id, missing_ok=True)).state


class SharedWritingContract:
    """The promises. ``nodes`` is a fixture: three nodes of one journal."""

    async def test_nodes_take_turns_and_each_reader_sees_each_append(self, nodes: list[Node]) -> None:
        """An append that has returned is in the next read of any other node, and seqs have no gap."""
        writers = [await node.open("thread", shared=True) for node in nodes]
        for number in range(12):
            done = await writers[number % 3].update("newest", number)
            assert done.seq == number + 1
            assert (await _read(nodes[(number + 1) % 3], "thread")).context == {"newest": number}
            assert (await writers[(number + 2) % 3].read()).context == {"newest": number}

    async def test_of_appends_that_expect_one_seq_exactly_one_succeeds(self, nodes: list[Node]) -> None:
        """The others get the state that came first; with its seq, they succeed later."""
        writers = [await node.open("thread", shared=True) for node in nodes]
        for seq in range(6):
            found = await asyncio.gather(
                *(one.record("turn", [seq, number], expected_seq=seq) for number, one in enumerate(writers)),
                return_exceptions=True,
            )
            conflicts = [one for one in found if isinstance(one, AppendConflict)]
            assert len(conflicts) == 2, found
            assert all(one.seq == one.state.seq == seq + 1 for one in conflicts)
        assert (await _read(nodes[0], "thread")).seq == 6

    async def test_a_change_is_one_entry_on_every_node(self, nodes: list[Node]) -> None:
        """It sets and deletes, or raises the conflict and changes nothing."""
        here, there = [await node.open("thread", shared=True) for node in nodes[:2]]
        await here.update_many({"old": 1, "kept": b"raw"})
        done = await there.change(set={"new": 2}, delete=["old", "nobody"], expected_seq=1, entry_id=bytes(16))
        with pytest.raises(AppendConflict):
            await here.change(set={"late": 3}, delete=["kept"], expected_seq=1)
        again = await here.change(set={"new": 2}, delete=["nobody", "old"], expected_seq=1, entry_id=bytes(16))
        assert again == done._replace(is_repeated=True)
        state = await _read(nodes[2], "thread")
        assert (state.seq, state.context) == (2, {"kept": b"raw", "new": 2})

    async def test_a_deleted_process_is_unknown_to_every_node_and_begins_anew(self, nodes: list[Node]) -> None:
        """Its content is gone, its seqs go on; a repeated deletion deletes nothing of what came later."""
        here, there = [await node.open("thread", shared=True) for node in nodes[:2]]
        await here.update_many({"a": 1, "b": 2})
        await there.say("user", "hello")
        done = await nodes[2].delete("thread", entry_id=bytes(16), reason="asked for")
        assert done is not None
        assert done.seq == 3
        for node in nodes:
            with pytest.raises(UnknownProcess, match="was deleted"):
                await node.recover("thread")
        for thread in (here, there):
            state = await thread.read()
            assert (state.is_deleted, state.seq, state.context, len(state.conversation)) == (True, 3, {}, 0)
        assert await nodes[0].delete("thread") is None
        assert await nodes[0].delete("nobody") is None
        with pytest.raises(AppendConflict):
            await here.update("late", 1, expected_seq=2)
        assert (await here.update("new", 1, expected_seq=3)).seq == 4
        assert await nodes[1].delete("thread", entry_id=bytes(16)) == done._replace(is_repeated=True)
        with pytest.raises(AppendConflict):
            await nodes[1].delete("thread", expected_seq=3)
        assert (await _read(nodes[2], "thread")).context == {"new": 1}
        async with nodes[1].open("thread") as process:
            assert process.state.context == {"new": 1}

    async def test_nodes_that_write_at_once_lose_and_double_nothing(self, nodes: list[Node]) -> None:
        """Whatever order the log gives them, all are applied once."""
        wanted = {f"{node.node_id}/{number}" for node in nodes for number in range(8)}

        async def write(node: Node) -> list[int]:
            async with node.open("thread", shared=True) as thread:
                done = [await thread.update(f"{node.node_id}/{number}", number) for number in range(8)]
            return [one.seq for one in done]

        seqs = await asyncio.gather(*map(write, nodes))
        assert sorted(seq for some in seqs for seq in some) == [*range(1, 25)]
        assert (await _read(nodes[1], "thread")).context.keys() == wanted

    async def test_whoever_repeats_an_append_gets_the_first_result(self, nodes: list[Node]) -> None:
        """By the entry's id, on any node, also after others wrote, with and without an expected seq."""
        first, second, third = [await node.open("thread", shared=True) for node in nodes]
        plain, based = uuid4().bytes, uuid4().bytes
        done = await first.record("work", 1, entry_id=plain)
        also = await second.record("work", 2, entry_id=based, expected_seq=1)
        await second.record("work", 3)
        assert await third.record("work", 1, entry_id=plain) == done._replace(is_repeated=True)
        assert await third.record("work", 2, entry_id=based, expected_seq=1) == also._replace(is_repeated=True)
        assert await first.record("work", 2, entry_id=based, expected_seq=1) == also._replace(is_repeated=True)
        assert (await _read(nodes[0], "thread")).seq == 3

    async def test_one_owner_keeps_others_out_and_leaves_the_process_to_them(self, nodes: list[Node]) -> None:
        """An owner takes a shared process at once, and is not fenced while it looks alive."""
        thread = await nodes[0].open("thread", shared=True)
        await thread.update("by", "shared")
        async with nodes[1].open("thread") as process:
            await process.update("by", "owner")
            with pytest.raises(OwnerAlive):
                await thread.update("by", "shared again")
            await process.confirm()
        done = await thread.update("by", "shared again")
        assert done.seq == 4  # two of the owner's, its update and its release
        assert (await _read(nodes[2], "thread")).context == {"by": "shared again"}
