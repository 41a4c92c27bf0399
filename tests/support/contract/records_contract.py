"""What reading the records of a process promises on every log, as one suite: a test of a log brings three ``nodes``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from seekpoint.producers import Node, ProcessRecord
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.errors import UnknownPoint
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.wire.codec import encode_within

__all__ = ["RecordsContract"]


async def _records(node: Node, process_id: str, **how: Any) -> list[ProcessRecord]:
    return [one async for one in node.records(process_id, **how)]


async def _values(node: Node, process_id: str, **how: Any) -> list[Any]:
    """The payloads of a program's own records."""
    return [one.payload async for one in node.records(process_id, **{"kinds": ["turn"], **how})]


async def _append(node: Node, owner: State, seq: int, payload: str) -> None:
    """Append an entry of an owner as it was, as a node does that does not know yet that it is fenced."""
    runtime, key = runtime_of(node), b"case"
    body = b.Custom(kind="turn", payload=f'"{payload}"')
    entry = Entry(new_id(), "case", seq, owner.epoch, owner.owner, None, 1, None, None, None, body)
    value = encode_within(entry, key, runtime.reader.limits)
    await asyncio.gather(*runtime.append_records(partition_of(key, runtime.reader.partitions), key, [value]))


class RecordsContract:
    """The promises. ``nodes`` is a fixture: three nodes of one journal."""

    async def test_records_have_all_that_an_entry_says(self, nodes: list[Node]) -> None:
        """Decoded, in order, with the kind that the program gave."""
        thread = await nodes[0].open("thread", shared=True)
        done = await thread.record("turn", {"n": 1})
        [claim, turn] = await _records(nodes[1], "thread")
        assert (claim.kind, claim.seq, claim.is_applied, claim.payload) == ("claim", None, True, None)
        assert (turn.kind, turn.seq, turn.is_applied, turn.payload) == ("turn", 1, True, {"n": 1})
        assert (turn.process_id, turn.offset, turn.id) == ("thread", done.offset, done.entry_id)
        assert (turn.body.KIND, turn.entry.kind) == ("custom", "custom")
        assert abs(turn.time.timestamp() - turn.timestamp_ms / 1000) < 60

    async def test_a_record_has_the_context_values_that_its_entry_sets(self, nodes: list[Node]) -> None:
        """Decoded anew, of each kind of entry that sets any; what it removes, or does not mention, is the default."""
        thread = await nodes[0].open("thread", shared=True)
        await thread.update("big", 2**70)
        await thread.update_many({"big": [1], "none": None})
        await thread.change(set={"$dollar": {"$x": 1}}, delete=["big"])
        await thread.patch({"big": 3})
        [_, one, many, change, patch] = await _records(nodes[1], "thread")
        assert (one.value("big"), one.value("other", "?")) == (2**70, "?")
        assert (many.value("big"), many.value("none", "?")) == ([1], None)
        assert (change.value("$dollar"), change.value("big", "?")) == ({"$x": 1}, "?")
        assert patch.value("big", "?") == "?"
        many.value("big").append(2)
        assert many.value("big") == [1]

    async def test_a_read_has_what_any_node_was_acknowledged(self, nodes: list[Node]) -> None:
        """Also a read that goes on where an earlier one ended, and one on a node that has not read before."""
        writers = [await node.open("thread", shared=True) for node in nodes]
        cursors: list[str | None] = [None, None, None]
        for number in range(9):
            await writers[number % 3].record("turn", number)
            for reader, node in enumerate(nodes):
                found = await _records(node, "thread", kinds=["turn"], after=cursors[reader])
                assert [one.payload for one in found] == [number]
                cursors[reader] = found[-1].cursor
        for node in nodes:
            assert await _values(node, "thread") == [*range(9)]

    async def test_a_read_goes_on_from_any_record(self, nodes: list[Node]) -> None:
        """By cursor, offset and seq, warm and on another node, in pages and at once."""
        thread = await nodes[0].open("thread", shared=True)
        for number in range(7):
            await thread.record("turn", number)
        every = await _records(nodes[0], "thread", kinds=["turn"])
        for number, one in enumerate(every):
            assert one.seq is not None
            for node in nodes[:2]:
                rest = [*range(number + 1, 7)]
                assert await _values(node, "thread", after=one.cursor) == rest
                assert await _values(node, "thread", after_offset=one.offset) == rest
                assert await _values(node, "thread", after_seq=one.seq) == rest
        pages, cursor = [], None
        while page := await _records(nodes[1], "thread", kinds=["turn"], after=cursor, limit=3):
            pages.append([one.payload for one in page])
            cursor = page[-1].cursor
        assert pages == [[0, 1, 2], [3, 4, 5], [6]]

    async def test_entries_that_do_not_count_are_left_out(self, nodes: list[Node]) -> None:
        """Those of a fenced owner. Each says whether it was applied, also where a read goes on."""
        process = await nodes[0].open("case")
        await process.record("turn", "first owner")
        fenced = process.state
        async with nodes[1].open("case", take_over=True) as taken:
            await taken.record("turn", "second owner")
            for seq in (2, 3):
                await _append(nodes[0], fenced, seq, "fenced")
            await taken.record("turn", "second owner")
        every = await _records(nodes[2], "case", applied=False, kinds=["turn"])
        assert [(one.payload, one.is_applied) for one in every] == [
            ("first owner", True), ("second owner", True), ("fenced", False), ("fenced", False), ("second owner", True),
        ]  # fmt: skip
        assert await _values(nodes[2], "case") == ["first owner", "second owner", "second owner"]
        for number, one in enumerate(every):
            for node in nodes[1:]:
                rest = [each.payload for each in every[number + 1 :] if each.is_applied]
                assert await _values(node, "case", after=one.cursor) == rest
                assert (
                    await _records(node, "case", applied=False, kinds=["turn"], after=one.cursor) == every[number + 1 :]
                )

    async def test_a_fork_begins_with_the_records_of_its_parents(self, nodes: list[Node]) -> None:
        """Up to the moment at which it left each; a cursor is good in each of them."""
        async with nodes[0].open("a") as process:
            await process.record("turn", "a1")
            await process.record("turn", "a2")
        async with nodes[0].fork("a", "b", at_seq=1) as process:
            await process.record("turn", "b1")
            await process.record("turn", "b2")
        async with nodes[1].fork("b", "c", at_seq=2) as process:
            await process.record("turn", "c1")
        assert await _values(nodes[2], "c") == ["a1", "b1", "c1"]
        assert await _values(nodes[2], "c", through_forks=False) == ["c1"]
        assert await _values(nodes[2], "c", after_seq=0) == ["c1"]
        assert await _values(nodes[2], "c", limit=2) == ["a1", "b1"]
        for number, one in enumerate(await _records(nodes[0], "c", kinds=["turn"])):
            assert one.process_id == "abc"[number]
            for node in nodes[:2]:
                assert await _values(node, "c", after=one.cursor) == ["a1", "b1", "c1"][number + 1 :]

    async def test_an_unknown_process_has_no_records(self, nodes: list[Node]) -> None:
        """Until it begins."""
        for node in nodes:
            assert await _records(node, "nobody") == []
            assert await _records(node, "nobody", after_seq=3) == []
        async with nodes[1].open("nobody") as process:
            await process.record("turn", 1)
        for node in nodes:
            assert await _values(node, "nobody") == [1]

    async def test_a_place_that_is_not_there_is_refused(self, nodes: list[Node]) -> None:
        """With a typed error."""
        thread = await nodes[0].open("thread", shared=True)
        done = await thread.record("turn", 1)
        for place in ({"after_seq": 2}, {"after_offset": done.offset + 1_000}, {"after": f"{done.offset + 9}@thread"}):
            with pytest.raises(UnknownPoint):
                await _records(nodes[1], "thread", **place)

    async def test_a_read_that_is_broken_off_leaves_nothing_behind(self, nodes: list[Node]) -> None:
        """A later one is whole, and so are reads at the same time."""
        thread = await nodes[0].open("thread", shared=True)
        for number in range(5):
            await thread.record("turn", number)
        async for one in nodes[1].records("thread", kinds=["turn"]):
            assert one.payload == 0
            break
        found = await asyncio.gather(*(_values(nodes[1], "thread", after=one.cursor) for _ in range(4)))
        assert found == [[1, 2, 3, 4]] * 4
