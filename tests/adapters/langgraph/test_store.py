"""The store for LangGraph, on one node, cold, and on two nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

from seekpoint import MemoryLog, Node, Recovery, SyncNode
from seekpoint.adapters.langgraph import SeekpointStore
from seekpoint.adapters.langgraph import store as store_module
from seekpoint.errors import Refused, UnserializableValue

NOTES = ("users", "7", "notes")


@pytest.fixture
async def stores() -> AsyncIterator[tuple[SeekpointStore, SeekpointStore]]:
    """Two stores on two nodes of one journal."""
    log = MemoryLog()
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(Node.in_memory(log, node_id=name)) for name in ("a", "b")]
        yield SeekpointStore(nodes[0]), SeekpointStore(nodes[1])


async def test_what_one_node_puts_another_one_gets(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """An item keeps the time at which it was made, and gets a new one with each put."""
    here, there = stores
    await here.aput(NOTES, "tea", {"likes": True})
    first = await there.aget(NOTES, "tea")
    await there.aput(NOTES, "tea", {"likes": False})
    second = await here.aget(NOTES, "tea")
    assert first is not None
    assert second is not None
    assert (first.value, second.value) == ({"likes": True}, {"likes": False})
    assert first.created_at == second.created_at == first.updated_at < second.updated_at
    await there.adelete(NOTES, "tea")
    assert await here.aget(NOTES, "tea") is None
    assert await here.aget(("never",), "tea") is None


async def test_nodes_that_put_at_once_lose_nothing(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Each put of a namespace is made by its newest items."""
    await asyncio.gather(*(stores[number % 2].aput(NOTES, f"key-{number}", {"n": number}) for number in range(20)))
    for store in stores:
        found = await store.asearch(NOTES, limit=100)
        assert sorted(item.value["n"] for item in found) == list(range(20))


async def test_values_come_back_exactly(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Also those that plain JSON does not have, and keys and labels with any characters."""
    here, there = stores
    value = {"price": Decimal("1.10"), "on": date(2026, 1, 2), "raw": b"\x00", "$gt": 1, "nested": {"$set": [1]}}
    await here.aput(("a/b", "ä %"), "k/ey", value)
    item = await there.aget(("a/b", "ä %"), "k/ey")
    assert item is not None
    assert item.value == value
    assert [one.key for one in await there.asearch(("a/b",))] == ["k/ey"]
    with pytest.raises(UnserializableValue):
        await here.aput(NOTES, "odd", {"odd": object()})


async def test_a_batch_is_one_entry_for_each_namespace(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Its reads see what was there before it, and of two puts of one key the last one counts."""
    here, there = stores
    results = await here.abatch(
        [PutOp(NOTES, "a", {"n": 1}), GetOp(NOTES, "a"), PutOp(NOTES, "a", {"n": 2}), PutOp(NOTES, "b", {"n": 3})]
    )
    assert results == [None, None, None, None]
    found = await there.asearch(NOTES)
    assert [(item.key, item.value["n"]) for item in found] == [("a", 2), ("b", 3)]
    state = await here._namespaces._state(NOTES)
    assert state.seq == 1
    await here.adelete(NOTES, "never")
    assert (await here._namespaces._state(NOTES)).seq == 1


async def test_a_search_finds_by_prefix_and_filter(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Over all namespaces below the prefix, in a stable order, page by page."""
    here, there = stores
    for name in [("a",), ("a", "b"), ("ab",), ("a", "c", "d")]:
        for number in range(4):
            await here.aput(name, f"k{number}", {"n": number, "tags": ["x", number], "in": {"deep": number}})
    every = [(item.namespace, item.key) for item in await there.asearch(("a",), limit=100)]
    assert {name for name, _ in every} == {("a",), ("a", "b"), ("a", "c", "d")}
    pages = [await there.asearch(("a",), limit=5, offset=offset) for offset in range(0, 12, 5)]
    assert [(item.namespace, item.key) for page in pages for item in page] == every

    async def numbers(wanted: Any) -> list[int]:
        return [item.value["n"] for item in await there.asearch(("ab",), filter=wanted)]

    assert await numbers({"n": {"$gte": 1, "$lt": 3}}) == [2, 1]
    assert await numbers({"n": {"$ne": 0}, "in": {"deep": 2}}) == [2]
    assert await numbers({"tags": ["x", 3]}) == [3]
    assert await numbers({"missing": {"$gt": 0}}) == []
    with pytest.raises(Refused, match="no such operator"):
        await numbers({"n": {"$near": 1}})
    with pytest.raises(Refused, match="semantic search"):
        await there.asearch(("a",), query="tea")


async def test_the_newest_items_come_first(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Over all namespaces, whichever node has put them; a limit leaves out the oldest ones, and reads few of them."""
    here, there = stores
    for number in range(30):
        await stores[number % 2].aput(("users", str(number % 12)), f"k{number}", {"n": number})
    every = [item.value["n"] for item in await here.asearch(("users",), limit=100)]
    assert every == [*range(29, -1, -1)]
    recovered: list[str] = []
    recover_many = Recovery.recover_many

    async def noted(self: Recovery, process_ids: Any, **how: Any) -> Any:
        recovered.extend(process_ids)
        return await recover_many(self, process_ids, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recovery, "recover_many", noted)
        assert [item.value["n"] for item in await there.asearch(("users",), limit=3)] == [29, 28, 27]
        assert 3 <= len(recovered) <= 4
        await here.aput(("users", "0"), "k0", {"n": 30})
        assert [item.value["n"] for item in await there.asearch(("users",), limit=3)] == [30, 29, 28]
        assert len(recovered) <= 5
    assert [item.value["n"] for item in await there.asearch(("users", "0"), limit=9)] == [30, 24, 12]


async def test_a_deletion_does_not_make_old_items_new(
    stores: tuple[SeekpointStore, SeekpointStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace whose newest entry put no item is read, and the next one too."""
    here, there = stores
    monkeypatch.setattr(store_module, "_PUT_MAX", timedelta(0))
    await here.aput(("a",), "old", {"n": 1})
    await here.aput(("a",), "gone", {"n": 2})
    await here.aput(("b",), "new", {"n": 3})
    await here.adelete(("a",), "gone")
    assert [item.key for item in await there.asearch((), limit=1)] == ["new"]
    assert [item.key for item in await there.asearch((), limit=1, offset=1)] == ["old"]


async def test_namespaces_are_listed(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Those with items, by prefix and suffix with wildcards, cut to a depth, page by page."""
    here, there = stores
    names = [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("e",)]
    for name in names:
        await here.aput(name, "key", {"n": 1})
    await here.adelete(("e",), "key")
    assert await there.alist_namespaces() == names[:3]
    assert await there.alist_namespaces(prefix=("a", "*", "c")) == [names[0], names[2]]
    assert await there.alist_namespaces(suffix=("b", "d")) == [names[1]]
    assert await there.alist_namespaces(max_depth=2) == [("a", "b"), ("a", "x")]
    assert await there.alist_namespaces(limit=1, offset=1) == [names[1]]


async def test_a_long_namespace_is_found(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """Its process's id is cut, and the prefix may be longer than that."""
    here, there = stores
    long = ("x" * 150, "y" * 150, "z")
    await here.aput(long, "key", {"n": 1})
    for prefix in (long[:1], long[:2], long):
        assert [item.namespace for item in await there.asearch(prefix)] == [long]


async def test_bad_namespaces_are_refused(stores: tuple[SeekpointStore, SeekpointStore]) -> None:
    """As LangGraph's own stores refuse them."""
    with pytest.raises(InvalidNamespaceError):
        await stores[0].aput(("a.b",), "key", {})
    with pytest.raises(InvalidNamespaceError):
        await stores[0].abatch([SearchOp(("a", ""))])


def test_a_store_on_a_sync_node_serves_plain_code() -> None:
    """Blocking calls, from any thread."""
    with SyncNode.in_memory() as node:
        store = SeekpointStore(node)
        store.put(NOTES, "tea", {"likes": True})
        item = store.get(NOTES, "tea")
        assert item is not None
        assert item.value == {"likes": True}
        assert store.list_namespaces() == [NOTES]
