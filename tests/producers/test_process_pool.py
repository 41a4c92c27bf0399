"""The pool of open processes. On a log in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from seekpoint.producers import Node, SyncNode
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process_pool import ProcessPool
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Fenced, HandleClosed, InvalidName, InvalidSetting, OwnerAlive, ProcessFinished

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
async def node(log: MemoryLog) -> AsyncIterator[Node]:
    async with Node.in_memory(log) as running:
        yield running


@pytest.fixture
async def other(log: MemoryLog) -> AsyncIterator[Node]:
    """Another node of the journal."""
    async with Node.in_memory(log) as running:
        yield running


def open_ids(node: Node) -> list[str]:
    return sorted(one.process_id for one in runtime_of(node).open_handles())


async def claims(node: Node, process_id: str) -> int:
    return len([one async for one in node.records(process_id, kinds=["claim"])])


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def add(pool: ProcessPool, process_id: str, key: str) -> None:
    async with pool.process(process_id) as process:
        await process.update(key, 1)


async def test_a_process_is_opened_once(node: Node) -> None:
    """One use after the other, and many at once: one claim, one owner. Closing the pool releases it."""
    async with node.pool() as pool:
        for number in range(3):
            await add(pool, "a", f"serial-{number}")
        await asyncio.gather(*(add(pool, "a", f"at-once-{number}") for number in range(20)))
        await asyncio.gather(*(add(pool, "b", f"at-once-{number}") for number in range(20)))
        assert await claims(node, "a") == await claims(node, "b") == 1
        assert (open_ids(node), pool.open_count) == (["a", "b"], 2)
    assert (open_ids(node), pool.open_count) == ([], 0)
    state = (await node.recover("a")).state
    assert (len(state.context), state.owner) == (23, None)


async def test_steps_of_several_uses_have_keys_of_the_process(node: Node) -> None:
    """Whichever tasks make them."""
    async with node.pool() as pool:

        async def work(number: int) -> int:
            async with pool.process("a") as process:
                return await process.step("look", lambda: number, key=f"look-{number}")

        assert await asyncio.gather(*(work(number) for number in range(5))) == [*range(5)]
        async with pool.process("a") as process:
            assert sorted(process.state.calls) == [f"look-{number}" for number in range(5)]


async def test_the_least_recently_used_is_released(node: Node) -> None:
    """A use makes a process young again; one in use stays, however many there are."""
    async with node.pool(open_max=2) as pool:
        for name in ("a", "b", "a", "c"):
            await add(pool, name, "x")
        await reached(lambda: open_ids(node) == ["a", "c"])
        async with pool.process("a"), pool.process("b"), pool.process("c"):
            assert open_ids(node) == ["a", "b", "c"]
            await add(pool, "d", "x")
            await reached(lambda: open_ids(node) == ["a", "b", "c"])
        await reached(lambda: len(open_ids(node)) == 2)
        assert (await node.recover("d")).state.owner is None


async def test_an_idle_process_is_released(node: Node) -> None:
    """Once nobody has used it for a while, not while somebody does."""
    async with node.pool(idle_s=0.05) as pool:
        async with pool.process("a") as process:
            await add(pool, "a", "x")
            await asyncio.sleep(0.15)
            assert open_ids(node) == ["a"]
            await process.update("still", "open")
        await reached(lambda: open_ids(node) == [])
        await add(pool, "a", "again")
        assert await claims(node, "a") == 2


async def test_a_process_that_is_being_released_is_opened_anew(node: Node) -> None:
    """The use waits for the release, and does not get what is going away, however far the release has got."""
    async with node.pool() as pool:
        for number in range(30):
            await add(pool, "a", f"{number}")
            releasing = asyncio.ensure_future(pool.release("a"))
            for _ in range(number + 1):
                await asyncio.sleep(0)
            await add(pool, "a", f"again-{number}")
            await releasing
        await pool.release("nobody")
        assert len((await node.recover("a")).state.context) == 60


async def test_a_lost_process_is_dropped(node: Node, other: Node) -> None:
    """The use that lost it learns of it, and the next one opens it anew."""
    async with node.pool(take_over=True) as pool:
        with pytest.raises(Fenced):
            async with pool.process("a") as process:
                await process.update("x", 1)
                async with other.open("a", take_over=True) as taken:
                    await taken.update("x", 2)
                await reached(lambda: not process.is_open)
        async with pool.process("a") as process:
            assert process.state.context == {"x": 2}
            await process.finish("done")
        with pytest.raises(ProcessFinished):
            await add(pool, "a", "x")
        assert (open_ids(node), pool.open_count) == ([], 0)


async def test_a_lost_process_is_replaced_while_its_users_are_there(node: Node, other: Node) -> None:
    """A new use does not wait for them."""
    async with node.pool(take_over=True) as pool:
        with pytest.raises(Fenced):
            async with pool.process("a") as lost:
                async with other.open("a", take_over=True):
                    pass
                await reached(lambda: not lost.is_open)
                await add(pool, "a", "new")
                assert open_ids(node) == ["a"]
        assert open_ids(node) == ["a"]


async def test_what_a_use_raises_is_its_own(node: Node) -> None:
    """Neither the process nor the other uses notice."""
    async with node.pool() as pool:
        async with pool.process("a") as process:
            with pytest.raises(ZeroDivisionError):
                async with pool.process("a"):
                    raise ZeroDivisionError
            await process.update("x", 1)
        assert (await node.recover("a")).state.failure is None


async def test_a_process_that_cannot_be_opened_leaves_no_trace(node: Node, other: Node) -> None:
    """Every use that waits gets the error; later it can be opened."""
    async with node.pool() as pool:
        async with other.open("a"):
            found = await asyncio.gather(*(add(pool, "a", "x") for _ in range(3)), return_exceptions=True)
            assert [type(one) for one in found] == [OwnerAlive] * 3
            with pytest.raises(InvalidName):
                await add(pool, "", "x")
            assert pool.open_count == 0
        await add(pool, "a", "x")


async def test_a_cancelled_use_leaves_the_process_to_the_others(node: Node) -> None:
    """Also if it was the one that began to open it."""
    async with node.pool() as pool:
        first = asyncio.ensure_future(add(pool, "a", "first"))
        second = asyncio.ensure_future(add(pool, "a", "second"))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()
        third = asyncio.ensure_future(add(pool, "b", "third"))
        await asyncio.sleep(0)
        third.cancel()
        await reached(lambda: open_ids(node) == ["a", "b"])
    assert open_ids(node) == []


async def test_a_closed_pool_is_closed(node: Node) -> None:
    """It takes what is in use along, waits for what is being opened, and opens nothing more."""
    pool = node.pool()
    async with pool.process("a") as process:
        opening = asyncio.ensure_future(add(pool, "b", "x"))
        await asyncio.sleep(0)
        await pool.close()
        await pool.close()
        with pytest.raises(HandleClosed):
            await process.update("x", 1)
    with pytest.raises(HandleClosed):
        await opening
    with pytest.raises(HandleClosed, match="pool was closed"):
        await add(pool, "c", "x")
    assert open_ids(node) == []


async def test_a_pool_survives_its_node(log: MemoryLog) -> None:
    """Closed later, it has nothing left to release."""
    async with Node.in_memory(log) as node:
        pool = node.pool()
        await add(pool, "a", "x")
    await pool.close()
    assert pool.open_count == 0


@pytest.mark.parametrize("how", [{"open_max": 0}, {"idle_s": 0}, {"idle_s": float("nan")}])
async def test_a_pool_that_keeps_nothing_is_refused(node: Node, how: dict[str, Any]) -> None:
    """With the numbers that it got."""
    with pytest.raises(InvalidSetting):
        node.pool(**how)


def test_threads_share_a_pool(log: MemoryLog) -> None:
    """Of a node for code that is not async."""
    with SyncNode.in_memory(log) as node:
        with node.pool(open_max=2) as pool:

            def work(number: int) -> None:
                for turn in range(5):
                    with pool.process(f"p-{turn % 2}") as process:
                        process.update(f"{number}-{turn}", 1)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join(30)
            assert pool.open_count == 2
        assert sum(len(node.recover(f"p-{number}").state.context) for number in range(2)) == 20
