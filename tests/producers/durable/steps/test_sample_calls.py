"""Samples: what code cannot compute again is taken once. In memory."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from branch_programs import result_of, running, slowly
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


async def test_a_failed_sample_fails_in_every_run(node: Node, log: MemoryLog) -> None:
    """Code that catches the failure does the same again. A value that cannot be journaled is a failure too."""
    fails = True

    async def fragile() -> int:
        if fails:
            raise OSError("gone")
        return 7

    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(OSError, match="gone"):
                await process.sample("file", fragile)
            with pytest.raises(UnserializableValue, match="bad:1"):
                await process.sample("bad", object)
            assert await process.sample("setting", str) == ""
        fails = False
    assert [(one.key, one.error is None) for one in of_kind(log, b.Sampled)] == [
        ("file:1", False), ("bad:1", False), ("setting:1", True),
    ]  # fmt: skip


async def test_code_that_catches_the_failure_of_a_sample_resumes_where_it_was() -> None:
    """Cut after each entry; with and without branches."""

    def broken() -> None:
        raise OSError("gone")

    async def reads(process: Process) -> Any:
        try:
            return await process.sample("file", broken)
        except OSError:
            return await process.step("fallback", slowly, "fallback")

    async def alone(process: Process) -> Any:
        return [await reads(process), await process.step("end", slowly, "end")]

    async def branches(process: Process) -> Any:
        return await process.gather(reads(process), process.step("end", slowly, "end", 100))

    for code in (alone, branches):
        whole = MemoryLog(partitions=1)
        assert await result_of(code, whole) == ["fallback", "end"]
        for log in cuts(whole):
            assert await result_of(code, log) == ["fallback", "end"]
            assert len(of_kind(log, b.Sampled)) == 1


async def test_a_failed_sample_is_taken_again_where_a_person_asks_for_it() -> None:
    """As a failed step is. What succeeded inside it stays, what failed inside it is made again."""
    fails, begun = True, list[str]()

    def inner(name: str) -> str:
        begun.append(name)
        if fails and name == "bad":
            raise OSError("gone")
        return name

    async def code(process: Process) -> Any:
        async def around() -> Any:
            return [await process.step(name, inner, name) for name in ("good", "bad")]

        return await process.sample("file", around)

    log = MemoryLog(partitions=1)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await result_of(code, log)
    fails = False
    with pytest.raises(OSError, match="gone"):
        await result_of(code, log)
    again = await on_node(log, lambda node: node.run(running(code), "p", take_over=True, retry_failed=True))
    assert (again, begun) == (["good", "bad"], ["good", "bad", "bad"])


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
