"""The events of a session in a journal: what is stored is replayed, in order, once, to whoever asks for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from seekpoint import MemoryLog, Node
from seekpoint.adapters.mcp import SeekpointEventStore
from seekpoint.errors import AppendTimeout


def note(text: str) -> JSONRPCNotification:
    """Return a message that is no answer."""
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


def answer(number: int) -> JSONRPCResponse:
    """Return the answer of a request."""
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={"n": number})


async def replayed(store: SeekpointEventStore, event_id: str) -> list[tuple[str | None, JSONRPCMessage]]:
    """Return what is sent for an event id, until the stream ends."""
    found: list[tuple[str | None, JSONRPCMessage]] = []

    async def take(event: EventMessage) -> None:
        found.append((event.event_id, event.message))

    async with asyncio.timeout(10):
        assert await store.replay_events_after(event_id, take) is None
    return found


async def test_what_one_node_stores_another_replays() -> None:
    """The messages of one stream behind the event, with the ids that the client knows; no beginning of a stream."""
    log = MemoryLog()
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        here, there = SeekpointEventStore(one, "s"), SeekpointEventStore(other, "s")
        began = await here.store_event("1", None)
        await here.store_event("2", None)
        first = await here.store_event("1", note("a"))
        await here.store_event("2", note("of another stream"))
        second = await here.store_event("1", note("b"))
        last = await here.store_event("1", answer(1))
        whole = [(first, note("a")), (second, note("b")), (last, answer(1))]
        for store in (here, there):
            assert await replayed(store, began) == whole
            assert await replayed(store, first) == whole[1:]


@pytest.mark.parametrize("event_id", ["", "0", "-1", "x", "99", "1" * 30, "٣"])
async def test_an_id_of_no_event_replays_nothing(event_id: str) -> None:
    """And ends at once, instead of waiting for what comes."""
    async with Node.in_memory() as node:
        store = SeekpointEventStore(node, "s")
        await store.store_event("1", None)
        assert await replayed(store, event_id) == []


async def test_a_replay_goes_on_with_what_is_stored_later() -> None:
    """By this node at once, and by another one soon."""
    log = MemoryLog()
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        here, there = SeekpointEventStore(one, "s"), SeekpointEventStore(other, "s")
        began = await here.store_event("1", None)
        replaying = [asyncio.create_task(replayed(store, began)) for store in (here, there)]
        for text in "abc":
            await asyncio.sleep(0.1)
            await here.store_event("1", note(text))
        await here.store_event("1", answer(1))
        for found in await asyncio.gather(*replaying):
            assert [message for _, message in found] == [note("a"), note("b"), note("c"), answer(1)]


async def test_the_parts_of_two_large_messages_may_be_mixed() -> None:
    """Two nodes store them at the same time."""
    log = MemoryLog()
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        here, there = SeekpointEventStore(one, "s"), SeekpointEventStore(other, "s")
        began = [await store.store_event(name, None) for store, name in ((here, "1"), (there, "2"))]
        large = [note(letter * 1_000_000) for letter in "ab"]
        await asyncio.gather(here.store_event("1", large[0]), there.store_event("2", large[1]))
        await here.store_event("1", answer(1))
        await there.store_event("2", answer(2))
        for event_id, message, store, number in zip(began, large, (there, here), (1, 2), strict=True):
            assert [each for _, each in await replayed(store, event_id)] == [message, answer(number)]


async def test_a_large_message_is_whole_behind_an_event_among_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node has stored the event meanwhile."""
    log = MemoryLog()
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        here, there = SeekpointEventStore(one, "s"), SeekpointEventStore(other, "s")
        record, among = here._record, list[str]()

        async def record_and_store(payload: dict[str, Any]) -> int:
            seq = await record(payload)
            among.append(await there.store_event("1", note("among")))
            return seq

        monkeypatch.setattr(here, "_record", record_and_store)
        large = note("ab" * 300_000)
        await here.store_event("1", large)
        monkeypatch.undo()
        await here.store_event("1", answer(1))
        for store in (here, there):
            found = [message for _, message in await replayed(store, among[1])]
            assert [one for one in found if one != note("among")] == [large, answer(1)]


class CountedLog(MemoryLog):
    """Counts the offsets that are read."""

    offsets = 0

    def read(self, partition: int, start: int, stop: int, keys: Any = None) -> Any:
        self.offsets += stop - start
        return super().read(partition, start, stop, keys)


async def test_a_replay_that_goes_on_reads_only_what_is_new() -> None:
    """However long its session is."""
    log = CountedLog(partitions=1)
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        here, there = SeekpointEventStore(one, "s"), SeekpointEventStore(other, "s")
        for _ in range(200):
            began = await here.store_event("1", None)
        arrived: asyncio.Queue[JSONRPCMessage] = asyncio.Queue()

        async def take(event: EventMessage) -> None:
            arrived.put_nowait(event.message)

        replaying = asyncio.create_task(there.replay_events_after(began, take))
        async with asyncio.timeout(20):
            await here.store_event("1", note("first"))
            assert await arrived.get() == note("first")
            before = log.offsets
            for text in "abcde":
                await here.store_event("1", note(text))
                assert await arrived.get() == note(text)
            assert log.offsets - before < 200
            await here.store_event("1", answer(1))
            await replaying


async def test_a_message_that_cannot_be_stored_is_sent_without_an_id(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says so. A request whose beginning cannot be stored is refused instead."""
    async with Node.in_memory() as node:
        store = SeekpointEventStore(node, "s")
        await store.state()

        async def refuse(*_: Any, **__: Any) -> None:
            raise AppendTimeout("no answer")

        assert store._process is not None
        monkeypatch.setattr(store._process, "record", refuse)
        assert await store.store_event("1", note("a")) == ""
        assert "cannot be sent again" in caplog.text
        with pytest.raises(AppendTimeout):
            await store.store_event("1", None)


async def test_a_replay_ends_with_its_session() -> None:
    """Its client has ended it, perhaps at another node."""
    log = MemoryLog()
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        here, there = SeekpointEventStore(one, "s"), SeekpointEventStore(other, "s")
        began = await here.store_event("_GET_stream", None)
        replaying = asyncio.create_task(replayed(here, began))
        await there.store_event("_GET_stream", note("a"))
        await there.update("ended", True)
        assert [message for _, message in await replaying] == [note("a")]
