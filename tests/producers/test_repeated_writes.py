"""Writes of an owner that are repeated with the id of their entry: each is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from cuts import of_kind
from late_log import FAST, LateLog
from open_processes import session_of
from seekpoint.producers import Acknowledged, Agent, Node, Process
from seekpoint.producers.writer import own_ids
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies import ContextUpdated, Custom
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import Fenced, Refused, SeekpointError
from seekpoint.schemas.wire.codec import encode

ID, OTHER = b"i" * 16, b"o" * 16


async def test_each_write_takes_an_id_and_is_written_once(node: Node) -> None:
    """Repeated, it returns where the first one is, whatever came between."""
    async with node.open("p") as process:
        calls: list[Callable[[dict[str, Any]], Awaitable[Acknowledged]]] = [
            lambda how: process.update("a", 1, **how),
            lambda how: process.update_many({"b": 2}, **how),
            lambda how: process.change(set={"c": 3}, delete=["b"], **how),
            lambda how: process.patch({"d": 4}, **how),
            lambda how: process.say("user", "hello", **how),
            lambda how: process.record("work", 1, **how),
            lambda how: process.delete("d", **how),
            lambda how: process.clear(**how),
        ]
        ids = [uuid4().bytes for _ in calls]
        first = [await call({"entry_id": each}) for call, each in zip(calls, ids, strict=True)]
        again = [await call({"entry_id": each}) for call, each in zip(calls, ids, strict=True)]
        assert [one.seq for one in first] == [*range(1, 9)]
        assert again == [one._replace(is_repeated=True) for one in first]
        assert process.state.seq == 8
        found = [one async for one in node.entries("p") if one.entry.seq is not None]
        assert [(one.entry.id, one.offset) for one in found] == [
            (each, one.offset) for each, one in zip(ids, first, strict=True)
        ]


async def test_the_next_owner_knows_the_ids_of_the_former_one(node: Node, log: MemoryLog) -> None:
    """It reads the history at its first write with an id, and not before."""
    async with node.open("p") as process:
        done = await process.record("work", 1, entry_id=ID)
    async with Node.in_memory(log, node_id="other") as other, other.open("p") as process:
        assert await process.record("work", 1, entry_id=ID) == done._replace(is_repeated=True)
        fresh = await process.record("work", 2, entry_id=OTHER)
        assert (fresh.is_repeated, (await process.record("work", 2, entry_id=OTHER)).seq) == (False, fresh.seq)
    assert [body.payload for body in of_kind(log, Custom)] == ["1", "2"]


async def test_a_process_that_is_open_for_long_knows_its_newest_ids(
    node: Node, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory does not grow with what it has written. What is repeated much later is written again."""
    monkeypatch.setattr(own_ids, "IDS_KEPT", 8)
    ids = [uuid4().bytes for _ in range(40)]
    for name in ("first", "next"):
        async with Node.in_memory(log, node_id=name) as owner, owner.open("p") as process:
            for number, each in enumerate(ids):
                await process.record("work", number, entry_id=each, wait=number % 2 == 0)
            await process.flush()
            for number, each in [*enumerate(ids)][-8:]:
                assert (await process.record("work", number, entry_id=each)).is_repeated
            kept = session_of(process)._ids
            assert kept is not None
            assert len(kept._own) == 8
            assert len(kept._ids._newest) < 24
    assert len(of_kind(log, Custom)) == 40 + 32  # the next one knows the newest ids of the former one


async def test_calls_at_once_with_one_id_write_one_entry(node: Node, log: MemoryLog) -> None:
    """The later ones wait for the first, also if its caller was cancelled."""
    async with node.open("p") as process:
        found = await asyncio.gather(*(process.record("work", number, entry_id=ID) for number in range(5)))
        assert {(one.seq, one.offset) for one in found} == {(1, found[0].offset)}
        assert sorted(one.is_repeated for one in found) == [False, True, True, True, True]
        given_up = asyncio.create_task(process.record("work", 9, entry_id=OTHER))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait({given_up})
        await process.record("work", 9, entry_id=OTHER)
    assert [body.payload for body in of_kind(log, Custom)] == ["0", "9"]


async def test_a_write_whose_outcome_was_open_is_repeated_on_the_next_handle() -> None:
    """The record lands although its acknowledgement never came: the repeated call finds it."""
    log = LateLog(0)
    async with Node.in_memory(log, **{**FAST, "heal_timeout_s": 0.1}) as node:
        process = await node.open("p")
        await process.record("before", 0, entry_id=OTHER)
        log.drop_acknowledgements()
        log.readable = False
        with pytest.raises(SeekpointError):
            await process.record("work", 1, entry_id=ID)
        log.readable = True
        log.heal()
        again = await node.open("p", take_over=True)
        assert (await again.record("before", 0, entry_id=OTHER)).is_repeated
        done = await again.record("work", 1, entry_id=ID)
        assert (done.seq, done.is_repeated) == (2, True)
        await again.release()
    assert [one.kind for one in of_kind(log, Custom)] == ["before", "work"]


async def test_a_fenced_owner_has_no_results_to_repeat(node: Node, log: MemoryLog) -> None:
    """What it was told last may not be applied."""
    process = await node.open("p")
    await process.record("work", 1, entry_id=ID)
    async with Node.in_memory(log, node_id="other") as other, other.open("p", take_over=True):
        with pytest.raises(Fenced):
            await process.record("late", 2)  # behind the other one's claim
            await process.confirm()
        with pytest.raises(Fenced):
            await process.record("work", 1, entry_id=ID)


async def test_an_id_that_is_none_and_a_write_without_an_entry_of_its_own_are_refused(node: Node) -> None:
    """Nothing is written then."""
    async with node.open("p") as process:
        for wrong in (b"short", "text", 5):
            with pytest.raises(Refused, match="16 bytes"):
                await process.record("work", 1, entry_id=wrong)  # type: ignore[arg-type]
        assert process.state.seq == 0
    async with node.open("q", detail="checkpoint") as process:
        with pytest.raises(Refused, match="no entry of their own"):
            await process.update("a", 1, entry_id=ID)


async def test_an_agents_code_needs_no_ids(node: Node) -> None:
    """Its writes have keys."""

    async def code(process: Process, input: Any) -> Any:
        with pytest.raises(Refused, match="have keys"):
            await process.update("a", 1, entry_id=ID)
        await process.update("a", 2)
        return process.state.context

    assert await node.run(Agent("code", "1", code), "p") == {"a": 2}


async def test_an_entry_of_a_former_owner_that_nobody_applies_is_not_taken_for_written(
    node: Node, log: MemoryLog
) -> None:
    """Though this owner writes an entry with its seq."""
    async with node.open("p") as process:
        await process.update("a", 1)
        former = process.state
    late = Entry(ID, "p", 4, former.epoch, former.owner, None, 1, None, None, None, ContextUpdated("x", "1"))
    log.append(0, b"p", encode(late))
    async with Node.in_memory(log, node_id="other") as other, other.open("p") as process:
        await process.update("b", 1, entry_id=OTHER)  # reads the history
        same = await process.update("c", 1)
        done = await process.update("x", 1, entry_id=ID)
        assert (same.seq, done.seq, done.is_repeated) == (4, 5, False)
        assert await process.update("x", 1, entry_id=ID) == done._replace(is_repeated=True)
        assert process.state.context == {"a": 1, "b": 1, "c": 1, "x": 1}
