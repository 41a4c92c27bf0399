"""Samples: what code cannot compute again is taken once. In memory."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cuts import cuts, of_kind, on_node
from seekpoint.producers import Agent, Node, Process, VirtualClock, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayDivergence, UnserializableValue


async def test_samples_are_the_same_in_every_run(node: Node, log: MemoryLog, clock: VirtualClock) -> None:
    """Time, identity and chance, by value and by type; one entry each, ever."""

    async def work(process: Process) -> list[Any]:
        return [await process.now(), await process.uuid(), await process.random(), await process.now()]

    async with node.open("p") as process:
        first = await work(process)
    clock.advance(60)
    async with node.open("p") as process:
        again = await work(process)
        later = await process.now()
    assert again == first
    assert [type(value) for value in again] == [type(value) for value in first]
    assert first[0] == datetime.fromtimestamp(1_700_000_000, UTC)
    assert first[0].utcoffset() == timedelta(0)
    assert later == first[0] + timedelta(seconds=60)
    assert [one.key for one in of_kind(log, b.Sampled)] == ["now:1", "uuid:1", "random:1", "now:2", "now:3"]


async def test_a_sample_is_acknowledged_before_the_code_has_it(node: Node, log: MemoryLog) -> None:
    """Else a crash would show the world a number that no journal has."""
    async with node.open("p") as process:
        log.refuse_appends()
        sample = asyncio.ensure_future(process.uuid())
        await asyncio.sleep(0.05)
        was_early = sample.done()
        log.heal()
        assert not was_early
        assert await asyncio.wait_for(sample, 60) is not None


async def test_samples_count_per_run_and_not_per_interpreter(node: Node, log: MemoryLog) -> None:
    """A bug of Tape's: with one counter for all, a second process, or a second run, met the wrong record."""

    async def work(process: Process) -> list[Any]:
        return [await process.random() for _ in range(2)]

    async with node.open("p") as one, node.open("q") as other:
        mixed: list[list[float]] = [[], []]
        for _ in range(2):
            mixed[0].append(await one.random())
            mixed[1].append(await other.random())
    async with node.open("q") as other:
        assert await work(other) == mixed[1]
    async with node.open("p") as one:
        assert await work(one) == mixed[0]
    for process_id in "pq":
        assert len(of_kind(log, b.Sampled, process_id)) == 2


async def test_a_sample_of_the_users_own_is_taken_once(node: Node) -> None:
    """Of a coroutine, of a plain function in a thread, an empty one too; it counts in its scope."""
    taken: list[str] = []

    def setting() -> str | None:
        taken.append("setting")
        return None

    async def page() -> dict[str, int]:
        taken.append("page")
        return {"b": 2, "a": len(taken)}

    async def work(process: Process) -> list[Any]:
        async def body() -> Any:
            return await process.sample("page", page)

        return [await process.sample("setting", setting), await process.sample("page", page),
                await process.step("deep", body)]  # fmt: skip

    results = []
    for _ in range(2):
        async with node.open("p") as process:
            results.append(await work(process))
            assert set(process.written.calls) == {"setting:1", "page:1", "deep:1", "deep:1/page:1"}
    assert results[0] == results[1] == [None, {"a": 2, "b": 2}, {"a": 3, "b": 2}]
    assert taken == ["setting", "page", "page"]


async def test_what_is_asked_inside_a_sample_belongs_to_it(node: Node) -> None:
    """Answered from the record, it asks nothing: what stands behind it is found where it was."""

    async def work(process: Process) -> list[Any]:
        async def body() -> float:
            return await process.random()

        return [await process.sample("around", body), await process.random(), await process.now()]

    results = []
    for _ in range(2):
        async with node.open("p") as process:
            results.append(await work(process))
            assert set(process.written.calls) == {"around:1", "around:1/random:1", "random:1", "now:1"}
    assert results[0] == results[1]


async def test_a_sample_that_raises_is_taken_again(node: Node, log: MemoryLog) -> None:
    """Nothing is remembered of it; what cannot be journaled says which sample it was."""
    fails = True

    async def fragile() -> int:
        if fails:
            raise OSError("gone")
        return 7

    async with node.open("p") as process:
        with pytest.raises(OSError, match="gone"):
            await process.sample("file", fragile)
        with pytest.raises(UnserializableValue, match="bad:1"):
            await process.sample("bad", object)
    assert not of_kind(log, b.Sampled)
    fails = False
    async with node.open("p") as process:
        assert await process.sample("file", fragile) == 7


async def test_a_sample_is_no_step(node: Node) -> None:
    """Code that makes another kind of call there diverges."""

    async def one() -> int:
        return 1

    async with node.open("p") as process:
        await process.sample("x", one)
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await process.step("x", one)
    assert caught.value.kind == "type"


def roller() -> Agent:
    @agent("roller")
    async def run(process: Process, input: Any) -> Any:
        rolled = [await process.random(), str(await process.uuid())]
        await process.update("rolled", rolled)
        return [*rolled, await process.now()]

    return run


async def test_what_was_sampled_survives_a_crash_anywhere() -> None:
    """Cut after each entry: whatever the code had been told, it is told again."""
    whole = MemoryLog(partitions=1)
    await on_node(whole, lambda node: node.run(roller(), "p"))
    for log in cuts(whole):
        had = {one.key: one.value for one in of_kind(log, b.Sampled)}
        await on_node(log, lambda node: node.run(roller(), "p", take_over=True))
        now = {one.key: one.value for one in of_kind(log, b.Sampled)}
        assert len(of_kind(log, b.Sampled)) == 3
        assert had.items() <= now.items()
