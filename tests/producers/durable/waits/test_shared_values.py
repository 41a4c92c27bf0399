"""Shared values: what a journal's processes have in common; the order of the log decides. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import cuts, of_kind, on_node
from seekpoint.producers import Agent, Node, Process, VirtualClock, agent
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidName, Refused, ReplayDivergence, VersionConflict


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(skips=False)


async def test_a_value_is_set_and_read_from_anywhere(node: Node) -> None:
    """Never set, it is None with version 0; each setting counts one."""
    rate = node.shared("rate")
    assert await rate.get() == (None, 0)
    assert await rate.set({"eur": 1.1}) == 1
    assert await rate.set(None) == 2
    assert await rate.get() == (None, 2)
    assert await node.shared("other").get() == (None, 0)


async def test_of_two_that_expect_the_same_version_one_wins(node: Node, log: MemoryLog) -> None:
    """The other is told the present version, and nothing is set."""
    async with Node.in_memory(log) as other:
        found = await asyncio.gather(
            *(one.shared("x").set(name, expected_version=0) for name, one in (("a", node), ("b", other), ("c", node))),
            return_exceptions=True,
        )
    assert sorted(map(str, (one for one in found if isinstance(one, int)))) == ["1"]
    conflicts = [one for one in found if isinstance(one, VersionConflict)]
    assert [(one.version, one.expected_version) for one in conflicts] == [(1, 0), (1, 0)]
    assert (await node.shared("x").get()).version == 1
    assert await node.shared("x").set("d", expected_version=1) == 2


async def test_each_of_many_settings_knows_its_own_version(node: Node) -> None:
    """Also where others came right behind it: who goes on with another's version overwrites what it never saw."""
    versions = await asyncio.gather(*(node.shared("x").set(number) for number in range(40)))
    assert sorted(versions) == list(range(1, 41))
    value, version = await node.shared("x").get()
    assert versions[value] == version


async def test_the_same_setting_twice_is_one(node: Node) -> None:
    """By its id: the version it made, though others came since."""
    shared, mine = node.shared("x"), bytes(15) + b"7"
    assert await shared.set("a", set_id=mine) == 1
    assert await shared.set("b") == 2
    assert await shared.set("a", set_id=mine) == 1
    assert await shared.get() == ("b", 2)


async def test_what_an_agent_saw_it_sees_again(node: Node, log: MemoryLog) -> None:
    """Gets, sets and conflicts are samples."""

    async def work(process: Process) -> list[Any]:
        seen: list[Any] = [await process.shared("x").get()]
        seen.append(await process.shared("x").set("mine", expected_version=1))
        try:
            await process.shared("x").set("again", expected_version=1)
        except VersionConflict as exc:
            seen.append((exc.version, exc.expected_version))
        seen.append(await process.shared("x").get())
        return seen

    await node.shared("x").set("first")
    async with node.open("p") as process:
        wanted = await work(process)
    assert wanted == [("first", 1), 2, (2, 1), ("mine", 2)]
    await node.shared("x").set("later")
    async with node.open("p") as process:
        assert await work(process) == wanted
        assert await process.shared("x").get() == ("later", 3)
    assert len(of_kind(log, b.SharedSet, "shared:x")) == 4
    async with node.open("p") as process:
        await process.shared("x").get()
        with pytest.raises(ReplayDivergence):
            await process.shared("x").set("other", expected_version=1)


def counter() -> Agent:
    @agent("counter")
    async def run(process: Process, input: Any) -> Any:
        value, version = await process.shared("count").get()
        first = await process.shared("count").set((value or 0) + 1, expected_version=version)
        return [first, await process.shared("count").set("any"), [*await process.shared("count").get()]]

    return run


async def test_settings_survive_a_crash_anywhere() -> None:
    """Cut after each entry: what was set is not set again, nor taken for another's."""
    whole = MemoryLog(partitions=1)
    wanted = await on_node(whole, lambda node: node.run(counter(), "p"))
    for log in cuts(whole):
        assert await on_node(log, lambda node: node.run(counter(), "p", take_over=True)) == wanted
        assert len(of_kind(log, b.SharedSet, "shared:count")) == 2


async def test_a_setting_that_was_refused_stays_refused_through_a_crash() -> None:
    """Of two agents that expect the same version one has it, though the other dies before it hears of its refusal; and
    whoever made a version before that refusal hears of the same one."""

    @agent("taker")
    async def taker(process: Process, input: Any) -> Any:
        first = await process.shared("lock").set("mine")
        try:
            return [first, await process.shared("lock").set("mine again", expected_version=0)]
        except VersionConflict as exc:
            return [first, exc.version, exc.expected_version]

    whole = MemoryLog(partitions=1)
    assert await on_node(whole, lambda node: node.run(taker, "p")) == [1, 1, 0]
    for log in cuts(whole):
        assert await on_node(log, lambda node: node.run(taker, "p", take_over=True)) == [1, 1, 0]


async def test_a_setting_that_is_asked_about_later_made_the_version_it_made(node: Node) -> None:
    """Others that were refused since do not count, nor does the very first entry of the log have one before it."""
    shared, mine = node.shared("x"), bytes(15) + b"7"
    assert await shared.set("a", set_id=mine) == 1
    for _ in range(2):
        with pytest.raises(VersionConflict):
            await shared.set("b", expected_version=0, set_id=bytes(15) + b"8")
    assert await shared.set("a", set_id=mine) == 1


async def test_watching_shows_each_version(node: Node, log: MemoryLog) -> None:
    """What there is at first, then what comes; two who watch see the same."""
    await node.shared("x").set("a")

    async def watch(after: int = 0) -> list[Any]:
        seen = []
        async for value, version in node.shared("x").watch(after=after):
            seen.append((value, version))
            if version == 3:
                break
        return seen

    watching = [asyncio.create_task(watch()), asyncio.create_task(watch()), asyncio.create_task(watch(2))]
    for value in ("b", "c"):
        await asyncio.sleep(0.1)
        await node.shared("x").set(value)
    seen = await asyncio.wait_for(asyncio.gather(*watching), 60)
    assert seen == [[("a", 1), ("b", 2), ("c", 3)]] * 2 + [[("c", 3)]]


async def test_an_agent_that_watches_sees_the_same_again(node: Node, log: MemoryLog) -> None:
    """Replayed, nothing is followed; then it goes on behind what it saw last."""

    async def watch(process: Process, through: int) -> list[Any]:
        seen = []
        async for found in process.shared("x").watch():
            seen.append(found)
            if found.version >= through:
                break
        return seen

    await node.shared("x").set("a")
    async with node.open("p") as process:
        assert await watch(process, 1) == [("a", 1)]
    await node.shared("x").set("b")
    await node.shared("x").set("c")
    async with node.open("p") as process:
        assert await watch(process, 3) == [("a", 1), ("c", 3)]
    await node.shared("x").set("d")
    async with node.open("p") as process:
        setting = asyncio.create_task(set_soon(node, "e"))
        seen = await watch(process, 5)
        await setting
    assert seen[:2] == [("a", 1), ("c", 3)]
    assert seen[-1] == ("e", 5)


async def set_soon(node: Node, value: str) -> None:
    await asyncio.sleep(0.1)
    await node.shared("x").set(value)


async def test_a_shared_value_is_no_process_to_own(node: Node) -> None:
    """Nobody opens, forks into or signals it, and nothing else is set."""
    await node.shared("x").set(1)
    with pytest.raises(Refused, match="not a process to open"):
        node.open("shared:x")
    with pytest.raises(Refused, match="not a process to open"):
        node.fork("p", "shared:y")
    with pytest.raises(Refused, match="nothing else"):
        await node.signal("shared:x", "go")
    with pytest.raises(Refused, match="nothing else"):
        await runtime_of(node).append_external("p", b.SharedSet(value="1"))
    for wrong in ("", "x\n", "x" * 200):
        with pytest.raises(InvalidName):
            node.shared(wrong)
    assert (await node.recover("shared:x")).state.epoch == 0
